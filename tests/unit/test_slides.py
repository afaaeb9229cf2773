"""What of a chapter's text stands on a slide, and which cells become slides."""

import pytest
from helpers import ROOT, code, notebook, prose

from tools.book.book import Book
from tools.book.chapters import SETUP, Chapter
from tools.rules.rules import ATTEMPT
from tools.site.slides_deck import make_deck
from tools.site.slides_printed import CUT, MOST, printed
from tools.site.slides_prose import ROOM, Prose, code_height, joined

LONG = "This is a sentence of so many words that a slide has no room for a second one beside it."


def shown(text, whole=False):
    """What a slide shows of a text, as HTML."""
    return joined(block.html for block in Prose(ROOT).blocks(text, whole))


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (f"{LONG} It goes on. And on.", f"<p>{LONG}</p>"),
        ("Short. As is this. " + LONG + " Not this.", f"<p>Short. As is this. {LONG}</p>"),
        (f"{LONG} Left out. That is a *view*.", f"<p>{LONG} That is a <em>view</em>.</p>"),
        ("See [here. And there](page.ipynb#x) it ends. " + LONG, None),
        (f"**Cure.** {LONG} No more.", f"<p><strong>Cure.</strong> {LONG}</p>"),
        (
            f"{LONG} Left out. These are:\n\n- one",
            f"<p>{LONG} These are:</p>\n<ul><li>one</li></ul>",
        ),
        ("1. one\n2. two", '<ol start="1"><li>one</li>\n<li>two</li></ol>'),
        ("<details>\n<summary>A</summary>\n</details>", ""),
        ("Version 2.13.0 and `a. b` hold. " + LONG, None),
    ],
)
def test_a_paragraph_is_cut_to_what_carries_it(text, html):
    found = shown(text)
    if html is None:
        assert LONG in found and not found.startswith(LONG)
    else:
        assert found == html


def test_the_notes_have_all_of_it_and_a_figure_in_words():
    text = f"{LONG} Left out.\n\n![Two GPUs](../img/devices.svg)"
    said = Prose(ROOT).whole(text)
    assert "Left out." in said and "Two GPUs" in said and "<svg" not in said
    assert "Left out." not in shown(text) and 'aria-label="Two GPUs"' in shown(text)
    assert shown(f"{LONG} Left out.", whole=True).endswith("Left out.</p>")


def test_links_within_the_book_are_words_and_others_stay():
    found = shown("[Here](../book/glossary.md#gpu) and [there](https://pytorch.org).")
    assert found == '<p><span>Here</span> and <a href="https://pytorch.org">there</a>.</p>'


def test_a_formula_is_drawn():
    assert 'aria-label="2n^3"' in shown("It takes $2n^3$ steps.")


def test_a_long_output_is_cut_and_its_height_is_that_of_what_is_left():
    lines = "\n".join(f"line {number}" for number in range(40))
    cell = code("x", "x", outputs=[{"output_type": "stream", "name": "stdout", "text": lines}])
    cell.metadata["mystnb"] = {"image": {"alt": ""}}
    block = printed(cell, [], Prose(ROOT), ROOM)
    assert block.html.count("\n") == MOST and CUT in block.html and "line 15" not in block.html
    assert block.height <= ROOM


def test_wrapped_lines_of_code_count():
    assert code_height("x" * 200) - code_height("x" * 20) == 2 * 33


@pytest.fixture
def slides_of(monkeypatch):
    """Makes the slides of a chapter of a few cells, which no runner has executed."""
    monkeypatch.setattr("tools.site.slides_deck.page_recordings", lambda chapter, book: [])
    monkeypatch.setattr(
        "tools.site.slides_deck.chapter_page", lambda chapter, book: chapter.notebook
    )

    def make(*cells):
        for cell in cells:
            cell.metadata["mystnb"] = {"image": {"alt": ""}}
        chapter = Chapter("tiny", notebook(prose("title", "# Tiny\n\nAll."), *cells))
        return {slide.name: slide for slide in make_deck(chapter, Book(ROOT)).slides}

    return make


def test_set_up_imports_and_hidden_cells_are_passed_over(slides_of):
    slides = slides_of(
        code("setup", "install()", [SETUP]),
        code("imports", "import torch\nfrom torch import nn"),
        code("attempt", ATTEMPT),
        code("hidden", "secret()", ["hide-cell"]),
        code("shown", "seen()"),
    )
    text = "".join(slide.body for slide in slides.values())
    assert "seen" in text
    for gone in ("install", "import", "attempt", "secret"):
        assert gone not in text


def test_a_long_table_is_in_the_notes_alone(slides_of):
    table = "| a | b |\n|:--|:--|\n" + "| x | y |\n" * 30
    few = slides_of(prose("text", f"## Part\n\n{LONG}\n\n{table}"))["text"]
    assert "<table" not in few.body and "<table" in few.notes[0] and LONG in few.body


def test_nothing_that_an_exercise_asks_is_lost(slides_of):
    asked = f"**1. Much.** *Recall.* {LONG * 15} End.\n\n*It holds when* it does."
    slides = slides_of(prose("exercise-1", asked), code("answer-1", "given = 1\nx = ..."))
    text = "".join(slide.body for slide in slides.values())
    assert "End." in text and "it does." in text and "given" in text and "zoom:" in text
    assert all(slide.head == "Exercise 1. Much" for slide in [*slides.values()][-3:])
