"""A page is a chapter with what every runner printed: once where they agree, else by runner."""

import nbformat
import pytest
from helpers import cell, copy_code, copy_kernel, edit, outputs_path, refused
from making import H100, changed, display, keep, specification, text
from nbformat.v4 import new_output

from tools.book.book import Book
from tools.site import page
from tools.site.page import page_safe

ON_GPUS, ON_CPU = [text("on cuda\n")], [text("on cpu\n")]
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


def by_runner(shown, id="show"):
    return {runner.label: runner.outputs for runner in shown.by_runner.get(id, [])}


def test_where_runners_differ_each_has_its_outputs_in_the_order_of_the_tabs(root):
    shown = page_of("first", root)
    tabs = [
        ("2 GPUs, simulated", ON_GPUS),
        ("No GPU", ON_CPU),
        ("NVIDIA H100", ON_GPUS),
    ]
    assert list(by_runner(shown).items()) == tabs
    simulated, _, card = shown.by_runner["show"]
    assert simulated.facts == "a processor, PyTorch 2.0, 2026-01-31"
    software = "PyTorch 2.0, CUDA 12.4, driver 550.1"
    assert card.facts == f"NVIDIA H100, {software}, 2026-01-31"
    assert simulated.times == card.times == ""

    notebook = notebook_of("first", root)
    (output,) = cell(notebook, "show").outputs
    (runners,) = output.data.values()
    assert list(output.data) == [page.RUNNERS]
    assert [page.RunnerOutputs(**runner) for runner in runners] == list(
        shown.by_runner["show"]
    )
    legend = notebook.cells[1]
    assert legend.id == "legend" and "Simulated is simulated: [" in legend.source
    assert "Times are modelled for a T4." in legend.source
    assert "Times are measured on NVIDIA H100." in legend.source


def test_where_runners_agree_outputs_stand_once_as_in_any_notebook(root):
    keep_all(root, "first", *[[text("alike\n")]] * 3)
    assert page_of("first", root).by_runner == {}
    notebook = notebook_of("first", root)
    assert cell(notebook, "show").outputs == [text("alike\n")]
    written = Book(root).chapters["first"].notebook.cells
    assert [below.id for below in notebook.cells] == [cell.id for cell in written]


def test_times_stand_by_runner_though_all_print_the_same_and_say_what_they_are(root):
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["tags"] = ["times"]
    keep_all(root, "first", *[[text("≈ 1 s\n")]] * 3)
    shown = page_of("first", root)
    assert list(by_runner(shown).values()) == [[text("≈ 1 s\n")]] * 3
    what = ("modelled for a T4", "measured on a processor", "measured on NVIDIA H100")
    times = [runner.times for runner in shown.by_runner["show"]]
    assert times == [f"Times {each}." for each in what]


def test_a_card_has_no_tab_under_the_cells_that_wait(root):
    keep(root, "first", "h100", {"make": [text("one\n")], "show": ON_GPUS}, **CARD)
    edit(root, "first", "show", "print('on', x)")
    keep(root, "first", "simulated", {"show": ON_GPUS})
    keep(root, "first", "cpu", {"show": ON_CPU})
    shown = page_of("first", root)
    assert list(by_runner(shown)) == ["2 GPUs, simulated", "No GPU"]
    assert by_runner(shown, "make")["NVIDIA H100"] == [text("one\n")]
    delete(root, "h100")  # then none has
    assert list(by_runner(page_of("first", root))) == ["2 GPUs, simulated", "No GPU"]
    assert "H100" not in cell(notebook_of("first", root), "legend").source


def test_a_cell_that_no_runner_has_recorded_ends_the_build(root):
    edit(root, "first", "show", "print('on', x)")
    where = "notebooks/first.ipynb: no runner has recorded the cell 'show'"
    with refused(where, "make book"):
        page_of("first", root)


def delete(root, runner):
    outputs_path("first", runner, root).unlink()


def test_a_runner_for_some_chapters_only_has_no_tab_in_others_and_every_chapter_needs_one(
    root,
):
    def only_second(runner):
        about = specification(runner)["metadata"]["runner"] | {"chapters": ["second"]}
        copy_kernel(root, runner, metadata={"runner": about})

    only_second("cpu")
    with refused(
        "outputs/cpu/first.ipynb: ", "cpu/kernel.json does not list this chapter"
    ):
        page_of("first", root)
    delete(root, "cpu")
    page_of("first", root)
    only_second("simulated")
    with refused("notebooks/first.ipynb: no runner executes it", "kernels/"):
        page_of("first", root)


def test_streams_in_other_pieces_and_counts_make_no_difference_but_kinds_and_order_do():
    pieces = [text("one\n"), text("two\n"), text("oh\n", "stderr"), text("three\n")]
    whole = [text("one\ntwo\n"), text("oh\n", "stderr"), text("three\n")]
    assert page_safe(pieces) == page_safe(whole) == whole
    assert len(pieces) == 4 and pieces[0].text == "one\n"  # what was recorded stays
    assert page_safe([text("one\n")]) != page_safe([text("one\n", "stderr")])
    first, second = (
        new_output("execute_result", {}, execution_count=count) for count in (1, 2)
    )
    assert page_safe([first]) == page_safe([second])


def test_what_a_page_cannot_draw_is_plain_text(root):
    strange = new_output(
        "display_data", {"application/x-new": "?", "text/plain": "plain"}
    )
    bare = new_output("display_data", {"application/x-new": "?", "text/x-other": "?"})
    fine = new_output(
        "display_data", {"application/x-new": "?", "text/html": "<b>1</b>"}
    )
    keep(root, "first", "cpu", {"show": [strange, bare], "make": [fine]})
    shown = page_of("first", root)
    plain = [output.data["text/plain"] for output in by_runner(shown)["No GPU"]]
    assert plain == ["plain", "[an output of the type application/x-new, text/x-other]"]
    assert by_runner(shown, "make")["No GPU"][0].data == {"text/html": "<b>1</b>"}


def test_a_plot_has_the_chapters_text_in_its_place_or_one_of_our_own(root):
    keep(root, "first", "cpu", {"show": [display("AAAA", "image/png")]})
    with changed(root / "notebooks" / "first.ipynb") as chapter:
        cell(chapter, "show").metadata["mystnb"] = {"image": {"alt": "Two bars"}}
    notebook = notebook_of("first", root)
    texts = [
        cell(notebook, id).metadata.mystnb["image"]["alt"] for id in ("make", "show")
    ]
    assert texts == ["Plot drawn by the code above", "Two bars"]
