"""A page is a chapter with what every runner printed: once where they agree, else by runner."""

import nbformat
import pytest
from helpers import cell, copy_code, copy_kernel, edit, outputs_path, refused
from making import H100, changed, display, keep, specification, text
from nbformat.v4 import new_output

from tools.book.book import Book
from tools.site import page
from tools.site.page import page_safe

ON_GPUS = [text("on cuda\n")]
ON_CPU = [text("on cpu\n")]
CARD = H100 | {"hardware": "NVIDIA H100"}


def keep_all(root, name, simulated, cpu, h100):
    keep(root, name, "simulated", {"show": simulated})
    keep(root, name, "cpu", {"show": cpu})
    keep(root, name, "h100", {"show": h100}, **CARD)


@pytest.fixture
def root(small_book):
    copy_code(small_book, "cudasim/src")
    for runner in ("simulated", "gpu"):
        copy_kernel(small_book, runner)
    for name in ("first", "second"):
        keep_all(small_book, name, ON_GPUS, ON_CPU, ON_GPUS)
    return small_book


def page_of(name, root):
    book = Book(root)
    return page.chapter_page(book.chapters[name], book)


def notebook_of(name, root):
    notebook = page.page_notebook(page_of(name, root), root)
    nbformat.validate(notebook)
    return notebook


def outputs_by_runner(shown, id="show"):
    """Return the outputs that a page shows of a cell, by the labels of the tabs."""
    return {
        runner.label: runner.outputs for runner in shown.outputs_by_runner.get(id, [])
    }


def test_where_runners_differ_each_has_a_tab(root):
    shown = page_of("first", root)
    # In the order of the tabs.
    assert list(outputs_by_runner(shown).items()) == [
        ("2 GPUs, simulated", ON_GPUS),
        ("No GPU", ON_CPU),
        ("NVIDIA H100", ON_GPUS),
    ]
    simulated, _, card = shown.outputs_by_runner["show"]
    assert simulated.facts == "a processor, PyTorch 2.0, 2026-01-31"
    software = "PyTorch 2.0, CUDA 12.4, driver 550.1"
    assert card.facts == f"NVIDIA H100, {software}, 2026-01-31"
    assert simulated.times_note == ""
    assert card.times_note == ""


def test_a_notebook_carries_the_outputs_of_all_tabs(root):
    notebook = notebook_of("first", root)
    [output] = cell(notebook, "show").outputs
    [(kind, runners)] = output.data.items()
    assert kind == page.RUNNERS
    tabs = [page.RunnerOutputs(**runner) for runner in runners]
    assert tabs == list(page_of("first", root).outputs_by_runner["show"])


def test_a_legend_says_what_runs_and_whose_times_are_shown(root):
    legend = notebook_of("first", root).cells[1]
    assert legend.id == "legend"
    assert "Simulated is simulated: [" in legend.source
    assert "Times are modelled for a T4." in legend.source
    assert "Times are measured on NVIDIA H100." in legend.source


def test_where_runners_agree_outputs_stand_once(root):
    alike = [text("alike\n")]
    keep_all(root, "first", alike, alike, alike)
    assert page_of("first", root).outputs_by_runner == {}
    notebook = notebook_of("first", root)
    assert cell(notebook, "show").outputs == alike
    chapter = Book(root).chapters["first"].notebook
    # There is no legend.
    assert [shown.id for shown in notebook.cells] == [cell.id for cell in chapter.cells]


def test_times_stand_by_runner_though_all_print_the_same(root):
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["tags"] = ["times"]
    alike = [text("≈ 1 s\n")]
    keep_all(root, "first", alike, alike, alike)
    shown = page_of("first", root)
    assert list(outputs_by_runner(shown).values()) == [alike, alike, alike]
    assert [runner.times_note for runner in shown.outputs_by_runner["show"]] == [
        "Times modelled for a T4.",
        "Times measured on a processor.",
        "Times measured on NVIDIA H100.",
    ]


def test_whose_times_are_shown_is_said_once(root):
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["tags"] = ["times"]
    said = [text("≈ 1 s, modelled for a T4\n")]
    keep_all(root, "first", said, [text("≈ 1 s\n")], ON_GPUS)
    shown = page_of("first", root)
    notes = [runner.times_note for runner in shown.outputs_by_runner["show"]]
    assert notes[:2] == ["", "Times measured on a processor."]


def test_a_card_has_no_tab_under_the_cells_that_wait(root):
    keep(root, "first", "h100", {"make": [text("one\n")], "show": ON_GPUS}, **CARD)
    edit(root, "first", "show", "print('on', x)")
    keep(root, "first", "simulated", {"show": ON_GPUS})
    keep(root, "first", "cpu", {"show": ON_CPU})
    shown = page_of("first", root)
    assert list(outputs_by_runner(shown)) == ["2 GPUs, simulated", "No GPU"]
    assert outputs_by_runner(shown, "make")["NVIDIA H100"] == [text("one\n")]


def test_a_card_without_a_recording_has_no_tab(root):
    delete(root, "h100")
    assert list(outputs_by_runner(page_of("first", root))) == [
        "2 GPUs, simulated",
        "No GPU",
    ]
    assert "H100" not in cell(notebook_of("first", root), "legend").source


def test_a_cell_that_no_runner_has_recorded_ends_the_build(root):
    edit(root, "first", "show", "print('on', x)")
    where = "notebooks/first.ipynb: no runner has recorded the cell 'show'"
    with refused(where, "make book"):
        page_of("first", root)


def delete(root, runner):
    outputs_path("first", runner, root).unlink()


def let_execute_only_second(root, runner):
    settings = specification(runner)["metadata"]["runner"] | {"chapters": ["second"]}
    copy_kernel(root, runner, metadata={"runner": settings})


def test_a_runner_has_no_tab_in_a_chapter_that_it_does_not_list(root):
    let_execute_only_second(root, "cpu")
    reason = "cpu/kernel.json does not list this chapter"
    with refused("outputs/cpu/first.ipynb: ", reason):
        page_of("first", root)
    delete(root, "cpu")
    keep(root, "first", "h100", {"show": [text("on a card\n")]}, **CARD)
    shown = page_of("first", root)
    assert list(outputs_by_runner(shown)) == ["2 GPUs, simulated", "NVIDIA H100"]


def test_every_chapter_needs_a_runner(root):
    for runner in ("cpu", "simulated"):
        delete(root, runner)
        let_execute_only_second(root, runner)
    with refused("notebooks/first.ipynb: no runner executes it", "kernels/"):
        page_of("first", root)


def test_streams_in_pieces_are_joined(root):
    pieces = [text("one\n"), text("two\n"), text("oh\n", "stderr"), text("three\n")]
    joined = [text("one\ntwo\n"), text("oh\n", "stderr"), text("three\n")]
    assert page_safe(pieces) == joined
    assert page_safe(joined) == joined
    # What was recorded stays.
    assert len(pieces) == 4
    assert pieces[0].text == "one\n"
    assert page_safe([text("one\n")]) != page_safe([text("one\n", "stderr")])


def test_counts_of_executions_make_no_difference():
    first = new_output("execute_result", {}, execution_count=1)
    second = new_output("execute_result", {}, execution_count=2)
    assert page_safe([first]) == page_safe([second])


def both(kind, content):
    """Return an output of a form that no page can draw, and of another."""
    return new_output("display_data", {"application/x-new": "?", kind: content})


def test_what_a_page_cannot_draw_is_plain_text(root):
    printed = {
        "show": [both("text/plain", "plain"), both("text/x-other", "?")],
        "make": [both("text/html", "<b>1</b>")],
    }
    keep(root, "first", "cpu", printed)
    shown = page_of("first", root)
    texts = [output.data["text/plain"] for output in outputs_by_runner(shown)["No GPU"]]
    assert texts == ["plain", "[an output of the type application/x-new, text/x-other]"]
    [drawn] = outputs_by_runner(shown, "make")["No GPU"]
    assert drawn.data == {"text/html": "<b>1</b>"}


def description(notebook, id):
    return cell(notebook, id).metadata.mystnb["image"]["alt"]


def test_a_plot_is_described_by_its_chapter_or_in_general(root):
    keep(root, "first", "cpu", {"show": [display("AAAA", "image/png")]})
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["mystnb"] = {"image": {"alt": "Two bars"}}
    notebook = notebook_of("first", root)
    assert description(notebook, "make") == "Plot drawn by the code above"
    assert description(notebook, "show") == "Two bars"
