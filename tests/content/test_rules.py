"""Each rule of the chapters finds what breaks it, and names the file, the cell and what to do."""

import pytest
from helpers import ROOT, assert_one_line, code, notebook, prose, run_tool, write

from tools.source.book import Book
from tools.source.chapters import Chapter
from tools.source.questions import ASKS, QUESTION_RULES, VERDICTS
from tools.source.rules import RULES, broken_rules, dead_links, loud_marks_in

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
SUMMARY = prose("summary", "## Summary")
TURNED = question(choice("A", "Right."), choice("B", "No."))

# Each rule with cells that break it, the cell that the line names, and what it says.
BREAKS = [
    ("long_cells", [code("a", "x = 1\n" * 13)], "a", "13 lines, 12 at most; split it"),
    ("wide_lines", [code("a", f"x = '{'y' * 80}'")], "a", "86 characters, 76 at most"),
    ("cells_that_may_raise", [code("a", "x", tags=["raises-exception"])], "a", "catch the error"),
    ("unchecked_cells", [code("a", "x # assert", tags=["nbval-ignore-output"])], "a", "assert in"),
    ("opening", [prose("a", "# T\n\n**What you need.** **What you will do.**")], "a", "in this"),
    ("ending", [prose("a", "## Summary\n\n## More")], None, "end with Summary and Exercises"),
    (
        "ending",
        [prose("a", "## Summary\n\n## Exercises\n\n**1. Recall.** Write it.")],
        None,
        "does not say once '*It holds when* ...'",
    ),
    ("loud_marks", [prose("a", "Done!")], "a", "say it plainly"),
    ("imports_of_ours", [code("a", "%time pass\nfrom tools.source import book")], "a", "install"),
    ("imports_of_ours", [code("a", "import tests.helpers")], "a", "install"),
    ("asks", [question(asked="Think about it.")], "check-it", "asks nothing"),
    ("asks", [question(id="quiz")], "quiz", "called check-..."),
    ("asks", [prose("check-it", "Something else.")], "check-it", "begins with"),
    ("numbers", [question(choice("A", "Right."))], "check-it", "2 of them right"),
    ("numbers", [question(choice("A", "No."), choice("B", "No."))], "check-it", "0 of them right"),
    (
        "numbers",
        [
            prose(
                "check-it", ASKS + "What?\n\n" + choice("A", "Right.") + "\n\n" + choice("B", "No.")
            )
        ],
        "check-it",
        "2 choices",
    ),
    ("numbers", [question(choice("B", "No."))], "check-it", "equal choices"),
    ("numbers", [question(choice("", "No."))], "check-it", "empty"),
    ("reasons", [question(choice("A", "No.", "It is not."))], "check-it", "and why"),
    ("reasons", [question(choice("A", "Well."))], "check-it", "does not say"),
    ("reasons", [question(choice("A", "No.", kind="right"))], "check-it", "as its class does"),
    (
        "reasons",
        [prose("check-it", QUESTION.source.replace("**No.**", "No."))],
        "check-it",
        "does not say",
    ),
    (
        "plain_html",
        [question(choice("A", "No.", LONG + "<script>reveal()</script>"))],
        "check-it",
        "script",
    ),
    ("plain_html", [question(choice("<input type='radio'>A", "No."))], "check-it", "input"),
    ("plain_html", [question(choice("A", "No.", attributes=" open"))], "check-it", "open"),
    ("plain_html", [question(choice("A", "No.", attributes=' name="one"'))], "check-it", "name"),
    ("plain_html", [question(choice("`A`", "No."))], "check-it", "Markdown where only HTML"),
    (
        "plain_html",
        [prose("check-it", QUESTION.source.replace("</summary>\n\n", "</summary>\n"))],
        "check-it",
        "Markdown where only HTML",
    ),
    ("spread", [QUESTION] * 3 + [SUMMARY], None, "3 questions, at least 4"),
    ("spread", [QUESTION] * 4 + [SUMMARY], None, "choice 2 is right in 4 of 4"),
    ("spread", [SUMMARY, QUESTION], "check-it", "after the summary"),
]
BY_NAME = {rule.__name__: rule for rule in RULES}


def chapter(*cells):
    return Chapter("first", notebook(*cells))


def test_the_chapters_of_this_book_keep_the_rules():
    broken = [line for each in Book().chapters.values() for line in broken_rules(each, ROOT)]
    assert broken == [], "\n".join(broken)


@pytest.mark.parametrize(("name", "cells", "id", "words"), BREAKS)
def test_a_rule_finds_what_breaks_it(name, cells, id, words):
    found = [(cell and cell.id, line) for cell, line in BY_NAME[name](chapter(*cells))]
    assert any(place == id and words in line for place, line in found), found


def test_every_rule_is_shown_to_be_one():
    assert {name for name, *_ in BREAKS} == set(BY_NAME)


@pytest.mark.parametrize("rule", QUESTION_RULES[:-1], ids=lambda rule: rule.__name__)
def test_a_sound_question_breaks_no_rule(rule):
    assert list(rule(chapter(QUESTION))) == []


def test_four_questions_with_the_right_choice_in_changing_places_break_no_rule():
    cells = [QUESTION, TURNED, QUESTION, TURNED, SUMMARY]
    assert list(BY_NAME["spread"](chapter(*cells))) == []


@pytest.mark.parametrize("text", ["Look: \U0001f680", "A tick \u2705", "Now!", "Warm \u2600\ufe0f"])
def test_loud_marks_are_found(text):
    assert loud_marks_in(text) != []


@pytest.mark.parametrize(
    "text", ["`!ls` and $n!$", "![A figure](../img/a.svg)", "2 \u00d7 3 \u2192 6"]
)
def test_quiet_marks_pass(text):
    assert loud_marks_in(text) == []


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "book").glob("*.md")))
def test_links_of_a_page_lead_somewhere(name):
    text = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
    assert dead_links(text, ROOT / "book") == []


@pytest.mark.parametrize(
    "target",
    ["../notebooks/none.ipynb", "none.md", "#no-such-heading", "glossary.md#no-such-heading"],
)
def test_a_dead_link_is_found(target):
    assert dead_links(f"# Title\n\n[there]({target})", ROOT / "book") == [target]


@pytest.mark.parametrize("target", ["#title", "glossary.md#stream", "https://example.org/none"])
def test_a_sound_link_is_not(target):
    assert dead_links(f"# Title\n\n[there]({target})", ROOT / "book") == []


def test_a_broken_rule_is_one_line_with_file_cell_and_advice(small_book):
    write(small_book, "first", prose("title", "# First"), code("long", "x = 1\n" * 13))
    run = run_tool(small_book, "rules")
    assert run.returncode == 1
    (line,) = [line for line in run.stderr.splitlines() if "13 lines" in line]
    assert_one_line(line, "notebooks/first.ipynb: cell 1 ('long'): 13 lines, 12 at most; split it")
