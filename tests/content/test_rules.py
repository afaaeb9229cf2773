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

from tools.source.book import Book
from tools.source.chapters import Chapter
from tools.source.questions import ASKS, QUESTION_RULES, VERDICTS
from tools.source.rules import (
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


def question(*changed, asked="What is it?", id="check-it"):
    """A sound question, its choices replaced by those given."""
    sound = [choice("A", "No."), choice("B", "Right."), choice("C", "No.")]
    return prose(id, "\n\n".join([ASKS + asked, *changed, *sound[len(changed) :]]))


QUESTION = question()
TURNED = question(choice("A", "Right."), choice("B", "No."))
SUMMARY = prose("summary", "## Summary")


def altered(old, new):
    return prose("check-it", QUESTION.source.replace(old, new))


# Each rule, what it says, and the cells that break it; the line names the last of them.
BREAKS = [
    ("long_cells", "13 lines, 12 at most; split it", code("a", "x = 1\n" * 13)),
    ("wide_lines", "86 characters, 76 at most", code("a", f"x = '{'y' * 80}'")),
    ("cells_that_may_raise", "catch the error", code("a", "x", tags=["raises-exception"])),
    ("unchecked_cells", "assert in", code("a", "x # assert", tags=["nbval-ignore-output"])),
    ("opening", "in this", prose("a", "# T\n\n**What you need.** **What you will do.**")),
    ("loud_marks", "say it plainly", prose("a", "Done!")),
    ("imports_of_ours", "install", code("a", "%time pass\nfrom tools.source import book")),
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
    ("spread", "after the summary", SUMMARY, QUESTION),
]
EXERCISE = "## Summary\n\n## Exercises\n\n**1. Recall.** Write it."
BREAKS_OF_CHAPTERS = [  # here the line names no cell
    ("ending", "end with Summary and Exercises", prose("a", "## Summary\n\n## More")),
    ("ending", "does not say once '*It holds when* ...'", prose("a", EXERCISE)),
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
    sound = chapter(QUESTION, TURNED, QUESTION, TURNED, SUMMARY)
    assert [line for rule in QUESTION_RULES for line in rule(sound)] == []


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
