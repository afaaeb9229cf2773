"""Timelines on pages: bars and a table of the same, from what cudasim leaves in an output."""

import json

import pytest
from bs4 import BeautifulSoup
from helpers import cell, copy_kernel, keep, refused, text
from nbformat.v4 import new_output

from cudasim.clock.clock import Span
from cudasim.clock.timeline import MIME as LEFT
from cudasim.clock.timeline import Timeline
from tools.book.book import Book
from tools.site import merge
from tools.site.merge import page_safe
from tools.site.timeline import MIME, ROW, timeline_html

SPANS = (
    Span("Python", "mm", 0, 40_000, "operation"),
    Span("Python", "item", 40_000, 400_000, "wait"),
    Span("cuda:0 stream 0", "mm <float>", 40_000, 390_000, "kernel"),
    Span("cuda:0 copies in", "copy", 10_000, 10_001, "copy", 64),
)


def bundle(*spans, source="modelled for a T4", notes=()):
    """What a notebook keeps of a timeline of these spans."""
    timeline = Timeline()
    timeline.fill(spans, source, notes)
    return timeline._repr_mimebundle_()


def drawn(*spans, **about):
    return BeautifulSoup(timeline_html(bundle(*spans, **about)[MIME]), "html.parser")


def test_both_sides_mean_the_same():
    assert MIME == LEFT


def test_a_bar_for_each_span_and_a_row_for_each_bar():
    page = drawn(*SPANS)
    bars = [(bar["class"][0], bar["x"], bar["width"]) for bar in page.select("rect")]
    assert bars == [
        ("operation", "0%", "10%"),
        ("wait", "10%", "90%"),
        ("kernel", "10%", "87.5%"),
        ("copy", "2.5%", "0.00025%"),
    ]
    assert [int(bar["y"]) // ROW for bar in page.select("rect")] == [0, 0, 1, 2]
    rows = [[each.get_text() for each in row.select("td")] for row in page.select("tbody tr")]
    assert rows == [
        ["Python", "mm", "operation", "0", "40.00"],
        ["Python", "item", "wait", "40.00", "360.0"],
        ["cuda:0 stream 0", "mm <float>", "kernel", "40.00", "350.0"],
        ["cuda:0 copies in", "copy", "copy", "10.00", "0.0010"],
    ]
    heads = [head.get_text() for head in page.select("thead th")]
    assert heads == ["Lane", "What", "Kind", "Begins, ≈ µs", "Takes, ≈ µs"]
    assert [text.get_text() for text in page.select("rect + svg")] == ["mm", "mm <float>"]


def test_words_for_what_is_seen():
    page = drawn(*SPANS, notes=["the first 3 spans were dropped: there are too many"])
    assert page.figcaption.get_text() == "Timeline, modelled for a T4: ≈ 400 µs"
    assert page.svg["role"] == "img"
    title = page.figcaption.get_text()
    assert page.svg["aria-label"] == f"{title}. The table below has its numbers."
    told = BeautifulSoup(timeline_html(bundle(*SPANS)[MIME], 'A "long" wait.'), "html.parser")
    assert told.svg["aria-label"] == 'A "long" wait. The table below has its numbers.'
    caption = page.caption.get_text()
    assert "Python: 1 operation, 1 wait; cuda:0 stream 0: 1 kernel" in caption
    lanes = [lane.get_text() for lane in page.select(".timeline-lanes div")]
    assert lanes[0] == "Python ≈ 10 % busy" and lanes[-1] == "≈ µs"
    assert "the first 3 spans were dropped" in page.get_text()


@pytest.mark.parametrize(
    ("length", "ticks"),
    [(400_000, ["0", "100", "200", "300", "400"]), (1_500_000, ["0.0", "0.2", "0.4", "0.6"])],
)
def test_the_axis(length, ticks):
    page = drawn(Span("Python", "mm", 0, length, "operation"))
    shown = page.select(".timeline-axis text")
    assert [tick.get_text() for tick in shown][: len(ticks)] == ticks
    assert shown[0]["class"] == ["first"] and shown[0]["x"] == "0%"


def test_merged_bars_are_counted():
    many = [Span("Python", "add", 10 * i, 10 * i + 10, "operation") for i in range(5000)]
    page = drawn(*many)
    assert page.select("td")[1].get_text() == "add \N{MULTIPLICATION SIGN} 5,000"
    assert "1 bar for 5,000 spans" in page.get_text()


def test_a_page_shows_the_drawing_instead_of_the_notebooks_own():
    (output,) = page_safe([new_output("display_data", data=bundle(*SPANS))], "A long wait.")
    assert list(output.data) == ["text/html"]
    assert output.data["text/html"].startswith('<figure class="timeline"')
    assert 'aria-label="A long wait. The' in output.data["text/html"]


def test_a_tab_for_each_runner_whose_times_differ(small_book):
    copy_kernel(small_book, "simulated")
    for runner, source in (("cpu", "measured on a processor"), ("simulated", "modelled for a T4")):
        shown = new_output("display_data", data=bundle(*SPANS, source=source))
        keep(small_book, "first", runner, {"make": [text("as ever\n")], "show": [shown]})
    book = Book(small_book)
    page = merge.chapter_page(book.chapters["first"], book)
    tabs = [each for each in page.cells if each.metadata.get("runner", {}).get("cell") == "show"]
    sources = [BeautifulSoup(tab.outputs[0].data["text/html"], "html.parser") for tab in tabs]
    titles = [source.figcaption.get_text() for source in sources]
    assert titles == [
        "Timeline, modelled for a T4: ≈ 400 µs",
        "Timeline, measured on a processor: ≈ 400 µs",
    ]
    assert cell(page, "make").outputs and not cell(page, "show").outputs
    assert list(merge.page_notes(book.chapters["first"], book)) == []


GOOD = json.loads(bundle(*SPANS)[MIME])


@pytest.mark.parametrize(
    "payload",
    [
        "no JSON",
        "[]",
        json.dumps({name: GOOD[name] for name in GOOD if name != "bars"}),
        json.dumps(GOOD | {"names": []}),
        json.dumps(GOOD | {"bars": [[0, 0, 1]]}),
    ],
)
def test_bars_that_cannot_be_drawn(payload):
    with refused(f"an output of the type {MIME} cannot be drawn", "execute its chapter again"):
        timeline_html(payload)
