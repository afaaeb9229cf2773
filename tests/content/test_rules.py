"""Each rule of the chapters finds what breaks it, and names the file, the cell and what to do."""

import pytest
from helpers import (
    ROOT,
    assert_one_line,
    code,
    display,
    edit,
    keep,
    notebook,
    prose,
    run_tool,
    text,
    write,
)

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.rules.exercises import EXERCISE_RULES
from tools.rules.predictions import PREDICTION_RULES
from tools.rules.questions import ASKS, COMPUTE, FIND, ORDER, QUESTION_RULES, VERDICTS
from tools.rules.rules import (
    ATTEMPT,
    OPENING,
    RULES,
    broken_rules,
    dead_links,
    loud_marks_in,
    measured_times,
    times_without_tag,
)

LONG = "What the wrong idea is, and why it is one."


def choice(answer, verdict, text=LONG, kind=None, attributes=""):
    kind = kind or VERDICTS.get(verdict, "wrong")
    return (
        f'<details class="choice {kind}"{attributes}>\n<summary>{answer}</summary>\n\n'
        f"**{verdict}** {text}\n\n</details>"
    )


def question(*changed, asked="What is it?", id="check-it", opening=ASKS):
    """A sound question, its choices replaced by those given."""
    sound = [choice("A", "No."), choice("B", "Right."), choice("C", "No.")]
    return prose(id, "\n\n".join([opening + asked, *changed, *sound[len(changed) :]]))


def of_kind(opening, *answers, program=""):
    """A question of another kind: the second answer is right."""
    changed = [choice(each, "Right." if i == 1 else "No.") for i, each in enumerate(answers)]
    return question(*[program] * bool(program), *changed, opening=opening)


QUESTION = question()
TURNED = question(choice("A", "Right."), choice("B", "No."))
SUMMARY = prose("summary", "## Summary")


def altered(old, new):
    return prose("check-it", QUESTION.source.replace(old, new))


PROGRAM = "```python\nX = 1\nY = X  # the same\nZ = Y\n```"
KINDS = [
    of_kind(COMPUTE, "4 MB", "8 MB", "12 MB"),
    of_kind(ORDER, "copy, then wait, then read", "wait, copy, read", "wait, read"),
    of_kind(FIND, "X = 1", "Y = X", "line 3", program=PROGRAM),
    of_kind(FIND, "<code>X = 1</code>", "<code>Y = X</code>", "<code>Z = X</code>"),
]

ASKED = prose("predict-it", "**Predict.** Where is `X`?\n\n- on the CPU\n- on the GPU")
ANSWER = code("answer-it", "X.device", ["predicted"])
ASSERTED = code("held", "assert X.device.type == 'cpu'")


def predicted(source, tags=("predicted",)):
    """A prediction, and the cell that answers it: the last."""
    return ASKED, code("answer-it", source, tags)


def asked(text, id="predict-it"):
    return prose(id, text)


def fold(kind, summary, text):
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def block(source, reason="A sentence that says why it is so."):
    return f"```python\n{source}\n```\n\n{reason}"


STARTER = "double = ...  # your function"
HOLDS = """\
if double is not ...:
    assert double(3) == 6
'Exercise 1: ' + ('no answer yet' if double is ... else 'it holds')"""
HINTS = fold("hint", "Hint 1", "A step."), fold("hint", "Hint 2", "One more.")
SOLUTION = fold("solution", "A solution", block("def double(x):\n    return 2 * x"))
WRONG = fold("wrong", "A wrong answer", block("double = lambda x: x"))
ASKED_WELL = "**1. Twice.** *Recall.* Write `double(x)`.\n\n*It holds when* `double(3) == 6`."


def exercise(
    number=1, asked=ASKED_WELL, hints=HINTS, starter=STARTER, holds=HOLDS, solved=(SOLUTION, WRONG)
):
    """The cells of an exercise, sound until something is changed."""
    return [
        prose(f"exercise-{number}", "\n\n".join([asked, *hints])),
        code(f"answer-{number}", starter),
        code(f"holds-{number}", holds),
        prose(f"solution-{number}", "\n\n".join(solved)),
    ]


def solved(old, new):
    """An exercise with a change in its solution, or in its wrong answer."""
    return exercise(solved=[each.replace(old, new) for each in (SOLUTION, WRONG)])


OPEN_HINT = HINTS[1].replace('class="hint"', 'class="hint" open')
RAW_HINT = HINTS[1].replace("</summary>\n\n", "</summary>\n")
HOLDS_WHEN = "*It holds when* it holds."


def numbered(number, level="Recall"):
    """A sound exercise of another number and level."""
    cells = exercise(number)
    for cell in cells:
        cell.source = cell.source.replace("**1.", f"**{number}.").replace("Recall", level)
        cell.source = cell.source.replace("Exercise 1", f"Exercise {number}")
    return cells


# Each rule, what it says, and the cells that break it; the line names the last of them.
BREAKS = [
    ("long_cells", "13 lines, 12 at most; split it", code("a", "x = 1\n" * 13)),
    ("wide_lines", "86 characters, 76 at most", code("a", f"x = '{'y' * 80}'")),
    ("cells_that_may_raise", "catch the error", code("a", "x", tags=["raises-exception"])),
    ("unchecked_cells", "assert in", code("a", "x # assert", tags=["nbval-ignore-output"])),
    ("opening", "in this", prose("a", "# T\n\n**What you need.** **What you will do.**")),
    ("loud_marks", "say it plainly", prose("a", "Done!")),
    ("imports_of_ours", "install", code("a", "%time pass\nfrom tools.book import book")),
    ("imports_of_ours", "install", code("a", "import tests.helpers")),
    ("measured_times", "print '≈'", code("a", "f'done: measured {done:.6f} s'")),
    ("measured_times", "print '≈'", code("a", "print('in all: measured: 3 s')")),
    ("asks", "asks nothing", question(asked="Think about it.")),
    ("asks", "called check-...", question(id="quiz")),
    ("asks", "begins with", prose("check-it", "Something else.")),
    ("numbers", "2 of them right", question(choice("A", "Right."))),
    ("numbers", "0 of them right", question(choice("A", "No."), choice("B", "No."))),
    ("numbers", "2 choices", altered(choice("C", "No."), "")),
    ("numbers", "equal choices", question(choice("B", "No."))),
    ("numbers", "empty", question(choice("", "No."))),
    ("reasons", "and why", question(choice("A", "No.", "It is not."))),
    ("reasons", "does not say", question(choice("A", "Well."))),
    ("reasons", "as its class does", question(choice("A", "No.", kind="right"))),
    ("reasons", "does not say", altered("**No.**", "No.")),
    ("plain_html", "script", question(choice("A", "No.", LONG + "<script>reveal()</script>"))),
    ("plain_html", "input", question(choice("<input type='radio'>A", "No."))),
    ("plain_html", "open", question(choice("A", "No.", attributes=" open"))),
    ("plain_html", "name", question(choice("A", "No.", attributes=' name="one"'))),
    ("plain_html", "Markdown where only HTML", question(choice("`A`", "No."))),
    ("plain_html", "Markdown where only HTML", altered("</summary>\n\n", "</summary>\n")),
    ("kinds", "is no number", of_kind(COMPUTE, "4", "8", "more")),
    ("kinds", "not orders of the same", of_kind(ORDER, "copy, wait", "wait, copy", "wait, read")),
    ("kinds", "no line of its program", of_kind(FIND, "X = 1", "Y", "Z = Y", program=PROGRAM)),
    ("kinds", "no line of its program", of_kind(FIND, "X = 1", "line 4", "Z = Y", program=PROGRAM)),
    ("kinds", "no line of its program", of_kind(FIND, "X = 1", "Y = X", "Z = Y")),
    ("lengths", "is the longest", question(choice("A", "No."), choice("By far", "Right."))),
    ("spread", "after the summary", SUMMARY, QUESTION),
    ("attempts", "another 'attempt'", code("attempt", "def attempt(function):\n    function()")),
    ("attempts", "another 'attempt'", code("try", ATTEMPT)),
    ("asked_alone", "called predict-", asked("What is it?")),
    ("asked_alone", "called predict-", asked("**Predict.** Where?", "where")),
    ("asked_alone", "cell predict-... of its own", asked("So.\n\n**Predict.** Where?", "text")),
    ("asked_alone", "cell predict-... of its own", asked("**Predict.** A? **Predict.** B?")),
    ("can_be_wrong", "question mark", asked("**Predict.** Think of the device.")),
    ("can_be_wrong", "one paragraph", asked("**Predict.** Where?\n\nIt is on the CPU.")),
    ("can_be_wrong", "one paragraph", asked("**Predict.** Where?\n\n1. here\n2. there")),
    ("can_be_wrong", "1 choices", asked("**Predict.** Where?\n\n- here")),
    ("can_be_wrong", "5 choices", asked("**Predict.** Where?\n\n- a\n- b\n- c\n- d\n- e")),
    ("can_be_wrong", "equal choices", asked("**Predict.** Where?\n\n- here\n- here")),
    ("can_be_wrong", "several lines", asked("**Predict.** Where?\n\n- here\n  or so\n- there")),
    ("can_be_wrong", "none is marked", asked("**Predict.** Where?\n\n- **here**\n- there")),
    ("answered_next", "does not answer it", ASKED),
    ("answered_next", "does not answer it", ANSWER, ASSERTED, ASKED),
    ("answered_next", "no prediction above", code("a", "X.device", ["predicted"])),
    ("answered_next", "no prediction above", ASKED, prose("b", "So."), ANSWER),
    ("answered_next", "asserts what was", *predicted("assert X.is_cpu\nX.device")),
    ("answered_next", "a comment may give", *predicted("X.device  # cpu")),
    ("answered_next", "shows nothing", *predicted("place = X.device")),
    ("answered_next", "shows True or False", *predicted("X.device.type == 'cpu'")),
    ("answered_next", "shows True or False", *predicted("not X.is_cuda")),
    ("asserted_after", "asserts nothing of it", ASKED, ANSWER),
    ("counted", "there is no cell exercise-1", *exercise()[1:]),
    ("counted", "give it a cell exercise-2", prose("more", "**2. Two.** *Apply.* Write it.")),
    ("asked_whole", "begins with", exercise(asked=ASKED_WELL.replace("Recall", "Easy"))[0]),
    ("asked_whole", "begins with", exercise(asked=ASKED_WELL.replace("1.", "2."))[0]),
    ("asked_whole", "does not say once", exercise(asked=ASKED_WELL.replace("holds when", ""))[0]),
    ("asked_whole", "does not say once", exercise(hints=[fold("hint", "Hint 1", HOLDS_WHEN)])[0]),
    ("asked_whole", "1 hints of 1 folds", exercise(hints=HINTS[:1])[0]),
    ("asked_whole", "2 hints of 3 folds", exercise(hints=[*HINTS, SOLUTION])[0]),
    ("asked_whole", "call it 'Hint 1'", exercise(hints=HINTS[::-1])[0]),
    ("asked_whole", "drop {'open'}", exercise(hints=[HINTS[0], OPEN_HINT])[0]),
    ("asked_whole", "leave a blank line", exercise(hints=[HINTS[0], RAW_HINT])[0]),
    ("in_order", "in a row", exercise()[0]),
    ("in_order", "in a row", *[exercise()[i] for i in (1, 2, 3, 0)]),
    ("in_order", "make it a code cell", exercise()[0], prose("answer-1", "Here.")),
    ("blank", "no blank answer", *exercise(starter="double = None")[:2]),
    ("blank", "no blank answer", *exercise(starter="double = ...\nimport torch")[:2]),
    ("blank", "no blank answer", *exercise(starter="half = ...\ndouble = ...")[:2]),
    ("blank", "checks no answer", *exercise(holds="assert double(3) == 6")[:3]),
    ("blank", "checks no answer", *exercise(holds=HOLDS.replace("assert ", ""))[:3]),
    ("blank", "asserts without an answer", *exercise(holds=f"assert True\n{HOLDS}")[:3]),
    ("blank", "does not end in", *exercise(holds=HOLDS.replace("Exercise 1", "It"))[:3]),
    ("solved", "<details", *exercise(solved=[SOLUTION])),
    ("solved", "<details", *exercise(solved=[WRONG, SOLUTION])),
    ("solved", "call it 'A solution'", *solved("A solution", "Solved")),
    ("solved", "0 blocks", *solved("```python", "```")),
    ("solved", "2 blocks", *solved("A sentence", "```python\nx = 1\n```\n\nA sentence")),
    ("solved", "characters, 76 at most", *solved("2 * x", f"2 * x  # {'x' * 80}")),
    ("solved", "is no Python", *solved("2 * x", "2 x")),
    ("solved", "gives 'double' no value", *solved("double =", "twice =")),
    ("solved", "does not say why", *solved("A sentence that says why it is so.", "So.")),
]
BREAKS_OF_CHAPTERS = [  # here the line names no cell
    ("ending", "end with Summary and Exercises", prose("a", "## Summary\n\n## More")),
    ("kinds", "begin one with", *[QUESTION] * 4),
    ("counted", "numbered [1, 3]", *numbered(1), *numbered(3)),
    ("counted", "1 exercises, at least 4", *exercise()),
    ("counted", "no exercise says *Apply.* or *Invent.*", *exercise()),
    ("spread", "3 questions, at least 4", *[QUESTION] * 3, SUMMARY),
    ("spread", "choice 2 is right in 4 of 4", *[QUESTION] * 4, SUMMARY),
]
BY_NAME = {rule.__name__: rule for rule in RULES}


def chapter(*cells):
    return Chapter("first", notebook(*cells))


def test_the_chapters_of_this_book_keep_the_rules():
    book, broken = Book(), []
    for each in book.chapters.values():
        broken += broken_rules(each, book.recordings_of(each), ROOT)
    assert broken == [], "\n".join(broken)


@pytest.mark.parametrize("broken", [*BREAKS, *BREAKS_OF_CHAPTERS], ids=lambda row: row[1])
def test_a_rule_finds_what_breaks_it(broken):
    name, words, *cells = broken
    id = cells[-1].id if broken in BREAKS else None
    found = [(cell and cell.id, line) for cell, line in BY_NAME[name](chapter(*cells))]
    assert any(place == id and words in line for place, line in found), found


def test_every_rule_is_shown_to_be_one():
    assert {name for name, *_ in BREAKS + BREAKS_OF_CHAPTERS} == set(BY_NAME)


def test_other_uses_of_the_word_measured_pass():
    cells = code("a", "axes.set(title='Loss, measured')"), code("b", "measured = {1: 2}")
    assert list(measured_times(chapter(*cells))) == []


ABOUT_TIME = [text("≈ 8.1 ms\n")]


@pytest.mark.parametrize(
    ("tags", "printed", "fault"),
    [
        (["times"], ABOUT_TIME, None),
        ([], [text("8.1 ms\n")], None),
        ([], ABOUT_TIME, "shows '≈' without the tag 'times'; add it"),
        ([], [display(image_svg_xml="<svg><!-- time ≈ --></svg>")], "without the tag 'times'"),
        (["times"], [text("8.1 ms\n")], "has the tag 'times' and shows no '≈'"),
    ],
)
def test_times_and_their_tag_go_together(small_book, tags, printed, fault):
    write(small_book, "first", prose("title", "# First"), code("show", "print(x)", tags))
    keep(small_book, "first", "cpu", {"show": printed})
    book = Book(small_book)
    found = list(times_without_tag(book.chapters["first"], book.recordings["cpu"].values()))
    assert [(cell.id, fault in line) for cell, line in found] == ([("show", True)] if fault else [])
    edit(small_book, "first", "show", "print(y)")  # from now on nothing is known of what it prints
    book = Book(small_book)
    recordings = book.recordings_of(book.chapters["first"])
    assert recordings and not list(times_without_tag(book.chapters["first"], recordings))


def test_a_tag_of_times_that_is_missing_is_one_line_of_make_rules(small_book):
    keep(small_book, "first", "cpu", {"show": ABOUT_TIME})
    run = run_tool(small_book, "rules")
    (line,) = [line for line in run.stderr.splitlines() if "the tag 'times'" in line]
    assert_one_line(line, "notebooks/first.ipynb: cell ", "('show'): shows '≈' without", "add it")
    assert run.returncode == 1


def test_sound_questions_with_the_right_choice_in_changing_places_break_no_rule():
    sound = chapter(QUESTION, TURNED, QUESTION, TURNED, KINDS[0], TURNED, SUMMARY)
    assert [line for rule in QUESTION_RULES for line in rule(sound)] == []


def test_questions_of_other_kinds_break_no_rule():
    plain = question(choice("A", "Right."), choice("B", "No."), asked="So?\n\n" + PROGRAM)
    longer = of_kind(COMPUTE, "4", "10", "6")
    sound = chapter(*KINDS, longer, *[plain] * 5, SUMMARY)
    assert [line for rule in QUESTION_RULES for _, line in rule(sound)] == []


def test_sound_predictions_break_no_rule():
    alone = asked("**Predict.** How many bytes?", "predict-bytes")
    sound = chapter(
        *(ASKED, ANSWER, prose("so", "It was made there."), ASSERTED),
        *(alone, code("shown", "X = 1\nX is Y", ["predicted"]), code("b", "assert X\nX")),
    )
    assert [line for rule in PREDICTION_RULES for _, line in rule(sound)] == []


def test_an_assert_that_comes_too_late_is_noticed():
    (asserted_after,) = (rule for rule in PREDICTION_RULES if rule.__name__ == "asserted_after")
    late = [
        [prose("so", "So."), prose("and", "And so."), ASSERTED],
        [code("more", "X"), ASSERTED],
    ]
    for cells in late:
        ((cell, _),) = asserted_after(chapter(ASKED, ANSWER, *cells))
        assert cell.id == ANSWER.id


def test_sound_exercises_break_no_rule():
    levels = enumerate(["Recall", "Apply", "Invent", "Apply"], start=1)
    cells = [cell for number, level in levels for cell in numbered(number, level)]
    more = code("holds-4-more", cells[-2].source)
    cells[-2].source = "def given(x):\n    return x"  # what the check needs
    cells[-3].source = "given = 3\ndouble = ...  # your function"
    sound = chapter(*cells[:-1], more, cells[-1])
    assert [line for rule in EXERCISE_RULES for _, line in rule(sound)] == []


def test_puzzles_are_exercises_and_need_no_summary():
    cells = [cell for number in range(1, 5) for cell in numbered(number)]
    for cell in cells:
        cell.source = cell.source.replace("'Exercise ", "'Puzzle ")
    title = prose("title", "# P\n\n" + " ".join(OPENING))
    puzzles = Chapter("puzzles", notebook(title, *cells, kind="puzzles"))
    assert [line.partition(": ")[2] for line in broken_rules(puzzles, [], ROOT)] == [
        "4 exercises, at least 15: cells exercise-1, ...",
        "no exercise says *Apply.* or *Invent.*; write one",
    ]


def test_the_one_attempt_is_no_other():
    assert list(BY_NAME["attempts"](chapter(code("attempt", ATTEMPT)))) == []


def test_loud_marks_are_found_and_quiet_ones_pass():
    loud = "Look: \U0001f680", "A tick \u2705", "Now!", "Warm \u2600\ufe0f"
    assert [text for text in loud if not loud_marks_in(text)] == []
    for quiet in "`!ls` and $n!$", "![A figure](../img/a.svg)", "2 \u00d7 3 \u2192 6":
        assert loud_marks_in(quiet) == []


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "book").glob("*.md")))
def test_links_of_a_page_lead_somewhere(name):
    text = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
    assert dead_links(text, ROOT / "book") == []


def test_dead_links_are_found_and_sound_ones_are_not():
    dead = ["../notebooks/none.ipynb", "none.md", "#no-such-heading", "glossary.md#no-such-heading"]
    sound = ["#title", "glossary.md#stream", "https://example.org/none"]
    links = [f"[there]({target})" for target in dead + sound]
    assert dead_links("\n\n".join(["# Title", *links]), ROOT / "book") == dead


def test_a_broken_rule_is_one_line_with_file_cell_and_advice(small_book):
    write(small_book, "first", prose("title", "# First"), code("long", "x = 1\n" * 13))
    run = run_tool(small_book, "rules")
    assert run.returncode == 1
    (line,) = [line for line in run.stderr.splitlines() if "13 lines" in line]
    assert_one_line(line, "notebooks/first.ipynb: cell 1 ('long'): 13 lines, 12 at most; split it")
