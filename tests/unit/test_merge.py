"""A page is a chapter with what every runner printed: once where they agree, else by runner."""

import re
import shutil

import nbformat
import pytest
from helpers import (
    H100,
    assert_one_line,
    cell,
    changed,
    copy_kernel,
    display,
    edit,
    keep,
    outputs_path,
    refused,
    specification,
    text,
)
from nbformat.v4 import new_output

from tools.book.book import Book
from tools.book.chapters import read_chapter
from tools.site import merge
from tools.site.merge import page_safe

ON_GPUS = {"show": [text("on cuda\n")]}
ON_CPU = {"show": [text("on cpu\n")]}


@pytest.fixture
def root(small_book):
    """A book whose chapters two runners and a card printed: `first` differs, `second` does not."""
    for runner in ("simulated", "gpu"):
        copy_kernel(small_book, runner)
    for name in ("first", "second"):
        keep(small_book, name, "simulated", ON_GPUS)
        keep(small_book, name, "cpu", ON_CPU)
        keep(small_book, name, "h100", ON_GPUS, **H100)
    return small_book


def chapter_page(name, root):
    book = Book(root)
    return merge.chapter_page(book.chapters[name], book)


def page_notes(name, root):
    book = Book(root)
    return list(merge.page_notes(book.chapters[name], book))


def by_runner(page, id):
    """What stands under a cell: its own outputs, or those of each runner, by label."""
    place = page.cells.index(cell(page, id))
    about = [(each, each.metadata.get("runner")) for each in page.cells[place + 1 :]]
    tabs = {seen["label"]: each.outputs for each, seen in about if seen and seen["cell"] == id}
    assert not (tabs and cell(page, id).outputs)
    return tabs or cell(page, id).outputs


def test_where_runners_differ_each_has_its_outputs_in_the_order_of_the_tabs(root):
    page = chapter_page("first", root)
    assert list(by_runner(page, "show").items()) == [
        ("2 GPUs, simulated", [text("on cuda\n")]),
        ("No GPU", [text("on cpu\n")]),
        ("NVIDIA H100", [text("on cuda\n")]),
    ]


def test_where_runners_agree_outputs_stand_once_as_in_any_notebook(root):
    for runner in ("simulated", "cpu", "h100"):
        facts = H100 if runner == "h100" else {}
        keep(root, "first", runner, {"show": [text("alike\n")]}, **facts)
    page = chapter_page("first", root)
    assert by_runner(page, "show") == [text("alike\n")]
    assert [each.id for each in page.cells] == ["title", "setup", "make", "show"]


def test_times_stand_by_runner_though_all_print_the_same_and_say_what_they_are(root):
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["tags"] = ["times"]
    for runner in ("simulated", "cpu", "h100"):
        facts = H100 | {"hardware": "NVIDIA H100"} if runner == "h100" else {}
        keep(root, "first", runner, {"show": [text("≈ 1 s\n")]}, **facts)
    page = chapter_page("first", root)
    assert list(by_runner(page, "show").values()) == [[text("≈ 1 s\n")]] * 3
    about = [each.metadata.runner for each in page.cells if "runner" in each.metadata]
    assert [each.times for each in about] == [
        "Times modelled for a T4.",
        "Times measured on a processor.",
        "Times measured on NVIDIA H100.",
    ]


def test_where_no_times_are_shown_no_tab_speaks_of_them(root):
    about = [each.metadata.get("runner") for each in chapter_page("first", root).cells]
    assert any(about) and not any("times" in each for each in about if each)


def test_a_page_holds_the_chapter_as_it_was_and_changes_nothing(root):
    book = Book(root)
    chapter, page = read_chapter("first", root), merge.chapter_page(book.chapters["first"], book)
    assert merge.chapter_page(book.chapters["first"], book) == page
    for before in chapter.notebook.cells:
        after = cell(page, before.id)
        assert after.source == before.source
        assert after.metadata.get("tags") == before.metadata.get("tags")
    nbformat.validate(page)


def test_a_cell_that_prints_on_one_runner_only_has_tabs(root):
    keep(root, "first", "cpu", {})
    assert by_runner(chapter_page("first", root), "show")["No GPU"] == []


def test_tabs_tell_the_facts_of_their_outputs(root):
    cells = chapter_page("first", root).cells
    here = "a processor, PyTorch 2.0, 2026-01-31"
    card = "a processor, PyTorch 2.0, CUDA 12.4, driver 550.1, 2026-01-31"
    facts = [each.metadata.runner.facts for each in cells if "runner" in each.metadata]
    assert facts == [here, here, card]


# A card that was recorded before the chapter changed.


def change_after_recording(root):
    edit(root, "first", "show", "print('on', x)")
    keep(root, "first", "simulated", ON_GPUS)
    keep(root, "first", "cpu", ON_CPU)


def test_a_card_has_no_tab_under_the_cells_that_wait(root):
    keep(root, "first", "h100", {"make": [text("one\n")]} | ON_GPUS, **H100)
    change_after_recording(root)
    page = chapter_page("first", root)
    assert list(by_runner(page, "show")) == ["2 GPUs, simulated", "No GPU"]
    assert by_runner(page, "make")["NVIDIA H100"] == [text("one\n")]


def test_whoever_builds_is_told_of_the_cells_that_wait(root):
    assert page_notes("first", root) == []
    change_after_recording(root)
    (note,) = page_notes("first", root)
    assert_one_line(note, "outputs/h100/first.ipynb: no tab for show", "make record RUNNER=gpu")
    assert page_notes("second", root) == []


# No page where outputs are missing or wrong.


def delete(root, runner):
    outputs_path("first", runner, root).unlink()


def make_stale(root, runner):
    edit(root, "first", "make", "x = 2")
    for other in {"cpu", "simulated"} - {runner}:
        keep(root, "first", other, {})


def copy_second(root, runner):
    shutil.copy(outputs_path("second", runner, root), outputs_path("first", runner, root))


def edit_by_hand(root, runner):
    with changed(outputs_path("first", runner, root)) as outputs:
        cell(outputs, "show").outputs = [text("made up\n")]


FAULTS = {
    delete: ("no such file", "'make book'"),
    make_stale: ("other code than that of make, show", "'make book'"),
    copy_second: ("of the chapter 'second'", "make record RUNNER="),
    edit_by_hand: ("edited since it was recorded", "make record RUNNER="),
}


@pytest.mark.parametrize(
    ("runner", "fault"),
    [
        *((runner, fault) for runner in ("simulated", "cpu") for fault in FAULTS),
        # Those of a card may be missing, or wait: such pages are tried above and below.
        *(("h100", fault) for fault in (copy_second, edit_by_hand)),
    ],
)
def test_a_fault_is_one_line_and_there_is_no_page(root, runner, fault):
    fault(root, runner)
    with refused(f"outputs/{runner}/first.ipynb: ", *FAULTS[fault]):
        chapter_page("first", root)


def test_a_card_without_outputs_of_a_chapter_has_no_tabs_there(root):
    delete(root, "h100")
    page = chapter_page("first", root)
    assert list(by_runner(page, "show")) == ["2 GPUs, simulated", "No GPU"]
    assert "H100" not in cell(page, "legend").source


def test_a_runner_for_some_chapters_only_is_not_missed_in_the_others(root):
    about = {"name": "Second only", "about": "", "chapters": ["second"]}
    copy_kernel(root, "cpu", "extra", metadata={"runner": about})
    chapter_page("first", root)
    with refused("outputs/extra/second.ipynb: no such file"):
        chapter_page("second", root)


def test_a_chapter_of_no_runner_is_one_line(root):
    """Without outputs its page would be wrong, whatever was recorded before."""
    for runner in ("cpu", "simulated"):
        about = specification(runner)["metadata"]["runner"] | {"chapters": ["second"]}
        copy_kernel(root, runner, metadata={"runner": about})
        delete(root, runner)
    delete(root, "h100")
    with refused("notebooks/first.ipynb: ", "kernels/"):
        chapter_page("first", root)


# Outputs as a page shows them.


def test_streams_that_came_in_other_pieces_are_equal():
    pieces = [text("one\n"), text("two\n"), text("oh\n", "stderr"), text("three\n")]
    whole = [text("one\ntwo\n"), text("oh\n", "stderr"), text("three\n")]
    assert page_safe(pieces) == page_safe(whole) == whole
    assert len(pieces) == 4 and pieces[0].text == "one\n"  # what was recorded stays


def test_kinds_and_order_of_streams_make_a_difference_and_execution_counts_none():
    assert page_safe([text("one\n")]) != page_safe([text("one\n", "stderr")])
    assert page_safe([text("a"), text("b")]) != page_safe([text("b"), text("a")])
    first, second = (
        new_output("execute_result", {"text/plain": "1"}, execution_count=count) for count in (1, 2)
    )
    assert page_safe([first]) == page_safe([second])


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ({"application/x-new": "?", "text/plain": "plain"}, {"text/plain": "plain"}),
        (
            {"application/x-new": "?", "text/x-other": "?"},
            {"text/plain": "[an output of the type application/x-new, text/x-other]"},
        ),
        ({"application/javascript": "go()", "text/html": "<b>1</b>"}, {"text/html": "<b>1</b>"}),
    ],
)
def test_what_a_page_cannot_draw_is_shown_as_plain_text(printed, shown):
    (safe,) = page_safe([new_output("display_data", printed)])
    assert safe.data == shown


def test_whoever_builds_is_told_of_what_a_page_cannot_draw(root):
    strange = new_output("display_data", {"application/x-new": "?", "text/plain": "plain"})
    fine = new_output("display_data", {"application/x-new": "?", "text/html": "<b>1</b>"})
    keep(root, "first", "cpu", {"show": [strange], "make": [fine]})
    (note,) = page_notes("first", root)
    assert_one_line(note, "outputs/cpu/first.ipynb: 'show'", "application/x-new", "plain text")
    assert by_runner(chapter_page("first", root), "show")["No GPU"][0].data == {
        "text/plain": "plain"
    }


def test_a_plot_has_a_text_in_its_place_even_if_the_chapter_has_none(root):
    keep(root, "first", "cpu", {"show": [display(image_png="AAAA")]})
    codes = [each for each in chapter_page("first", root).cells if each.cell_type == "code"]
    texts = {each.metadata.mystnb["image"]["alt"] for each in codes}
    assert texts == {"Plot drawn by the code above"}


def test_the_text_of_a_chapter_for_its_plot_is_that_of_every_runners(root):
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["mystnb"] = {"image": {"alt": "Two bars"}}
    shown = [each for each in chapter_page("first", root).cells if each.metadata.get("runner")]
    assert [each.metadata.mystnb["image"]["alt"] for each in shown] == ["Two bars"] * 3


# The legend.


def test_the_legend_says_what_the_tabs_are_and_that_simulated_is_simulated(root):
    title, legend, *_ = chapter_page("first", root).cells
    assert (title.id, legend.id) == ("title", "legend")
    for part in ("2 GPUs, simulated", "No GPU", "NVIDIA H100", "The GPUs of a real machine"):
        assert part in legend.source
    assert specification("simulated")["metadata"]["runner"]["about"] in legend.source
    assert "Simulated is simulated: [" in legend.source
    assert "a processor, PyTorch 2.0, CUDA 12.4, driver 550.1, 2026-01-31" in legend.source


def test_the_legend_says_whose_times_each_tab_shows_and_what_the_sign_before_them_means(root):
    legend = cell(chapter_page("first", root), "legend").source
    simulated, cpu, card = re.findall(r"^\*\*.*\*\*\n: (.*)$", legend, re.M)
    assert "Times are modelled for a T4." in simulated and "measured" not in simulated
    for line in cpu, card:
        assert "Times are measured on a processor." in line
    assert "The sign ≈ stands before a time" in legend
