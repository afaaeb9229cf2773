"""Timelines on pages: bars and a table of the same, from what cudasim leaves in an output."""

import json

import pytest
from bs4 import BeautifulSoup
from helpers import refused
from nbformat.v4 import new_output

from cudasim.clock import drawing
from cudasim.clock.clock import Span
from cudasim.clock.timeline import MIME as LEFT
from cudasim.clock.timeline import Timeline
from tools.book.grammar import TIMELINE as MIME
from tools.site.page import page_safe
from tools.site.timeline import ROW, meaning, paint, timeline_html

SPANS = (
    Span("Python", "mm", 0, 40_000, "operation"),
    Span("Python", "item", 40_000, 400_000, "wait"),
    Span("cuda:0 stream 0", "mm <float>", 40_000, 390_000, "kernel"),
    Span("cuda:0 copies in", "copy", 10_000, 10_001, "copy", 64),
)


def timeline(*spans, notes=()):
    made = Timeline()
    made.fill(spans, "modelled for a T4", notes)
    return made


def drawn(*spans, alt="", notes=()):
    payload = timeline(*spans, notes=notes).payload()
    return BeautifulSoup(timeline_html(payload, alt), "html.parser")


def test_a_bar_for_each_span_and_a_row_for_each_bar():
    page = drawn(*SPANS, alt='A "long" wait.', notes=["the first 3 spans were dropped"])
    bars = [(bar["class"][0], bar["x"], bar["width"]) for bar in page.select("rect")]
    assert bars == [
        ("operation", "0%", "10%"),
        ("wait", "10%", "90%"),
        ("kernel", "10%", "87.5%"),
        ("copy", "2.5%", "0.00025%"),
    ]
    assert [int(bar["y"]) // ROW for bar in page.select("rect")] == [0, 0, 1, 2]
    rows = [
        [cell.get_text() for cell in row.select("td")]
        for row in page.select("tbody tr")
    ]
    assert rows == [
        ["Python", "mm", "operation", "0", "40.00"],
        ["Python", "item", "wait", "40.00", "360.0"],
        ["cuda:0 stream 0", "mm <float>", "kernel", "40.00", "350.0"],
        ["cuda:0 copies in", "copy", "copy", "10.00", "0.0010"],
    ]
    assert [text.get_text() for text in page.select("rect + svg")] == [
        "mm",
        "mm <float>",
    ]
    ticks = [tick.get_text() for tick in page.select(".timeline-axis text")]
    assert ticks == ["0", "100", "200", "300", "400"]
    assert page.figcaption.get_text() == "Timeline, modelled for a T4: ≈ 400 µs"
    assert page.svg["aria-label"] == 'A "long" wait. The table below has its numbers.'
    caption = page.caption.get_text()
    assert "Python: 1 operation, 1 wait; cuda:0 stream 0: 1 kernel" in caption
    assert page.select(".timeline-lanes div")[0].get_text() == "Python ≈ 10 % busy"
    assert "the first 3 spans were dropped" in page.get_text()


LANES = {"Python": "operation", "cuda:1 stream 0": "kernel", "cuda:1 NCCL": "kernel"}


def of_ranks(*ranks):
    lanes = [(f"{rank}{lane}", kind) for rank in ranks for lane, kind in LANES.items()]
    return [Span(lane, "all_reduce", 0, 1000, kind) for lane, kind in lanes]


def test_ranks_are_set_apart_where_another_begins():
    figure = drawn(*of_ranks("rank 0: ", "rank 1: ", "rank 10: "))
    assert [line["y1"] for line in figure.select(".between-ranks")] == [
        f"{3 * ROW}",
        f"{6 * ROW}",
    ]
    firsts = [row.b.get_text() for row in figure.select(".first-of-rank")]
    assert firsts == ["rank 1: Python", "rank 10: Python"]
    assert not drawn(*of_ranks("")).select(".between-ranks, .first-of-rank")
    keys = [item.get_text() for item in figure.select(".timeline-head li")]
    assert keys == ["operation", "kernel on cuda:1"]


def test_a_bar_has_the_colour_and_the_meaning_that_cudasim_gives_it():
    others = [
        ("xpu:1 stream 0", "kernel"),
        ("mps stream 0", "kernel"),
        ("Python", "sleep"),
    ]
    spans = [
        *SPANS,
        *of_ranks("rank 1: "),
        *(Span(lane, "x", 0, 1, kind) for lane, kind in others),
    ]
    for bar in timeline(*spans).bars():
        assert paint(bar.lane, bar.kind) == drawing.paint(bar)
        assert meaning(bar.lane, bar.kind) == drawing.meaning(bar)


def test_a_page_shows_the_drawing_instead_of_the_notebooks_own():
    assert MIME == LEFT
    left = new_output("display_data", data=timeline(*SPANS)._repr_mimebundle_())
    (output,) = page_safe([left], "A long wait.")
    assert list(output.data) == ["text/html"]
    assert 'aria-label="A long wait. The' in output.data["text/html"]


GOOD = json.loads(timeline(*SPANS).payload())
TORN = (
    "no JSON",
    "[]",
    json.dumps(GOOD | {"names": []}),
    json.dumps(GOOD | {"bars": [[0, 0]]}),
)


@pytest.mark.parametrize("payload", TORN)
def test_bars_that_cannot_be_drawn(payload):
    with refused(
        f"an output of the type {MIME} cannot be drawn", "execute its chapter again"
    ):
        timeline_html(payload)
