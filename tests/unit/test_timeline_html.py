"""Timelines on pages: bars and a table of the same, from what cudasim leaves in an output."""

import json

import pytest
from bs4 import BeautifulSoup
from helpers import refused
from nbformat.v4 import new_output

from cudasim.clock import drawing
from cudasim.clock.clock import Span
from cudasim.clock.timeline import MIME as MIME_OF_CUDASIM
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
    timeline = Timeline()
    timeline.fill(spans, "modelled for a T4", notes)
    return timeline


def drawn(*spans, alt="", notes=()):
    payload = timeline(*spans, notes=notes).payload()
    return BeautifulSoup(timeline_html(payload, alt), "html.parser")


@pytest.fixture(scope="module")
def figure():
    dropped = "the first 3 spans were dropped"
    return drawn(*SPANS, alt='A "long" wait.', notes=[dropped])


def texts(tags):
    return [tag.get_text() for tag in tags]


def test_each_span_has_a_bar_in_its_lane(figure):
    bars = figure.select("rect")
    assert [(bar["class"][0], bar["x"], bar["width"]) for bar in bars] == [
        ("operation", "0%", "10%"),
        ("wait", "10%", "90%"),
        ("kernel", "10%", "87.5%"),
        ("copy", "2.5%", "0.00025%"),
    ]
    assert [int(bar["y"]) // ROW for bar in bars] == [0, 0, 1, 2]
    assert texts(figure.select("rect + svg")) == ["mm", "mm <float>"]
    ticks = figure.select(".timeline-axis text")
    assert texts(ticks) == ["0", "100", "200", "300", "400"]
    assert texts(figure.select(".timeline-lanes div"))[0] == "Python ≈ 10 % busy"


def test_what_covers_long_gaps_is_pale():
    spans = []
    for start in range(0, 1_000_000, 1000):
        spans.append(Span("cuda:0 stream 0", "mm", start, start + 990, "kernel"))
        spans.append(Span("cuda:0 copies in", "copy", start, start + 10, "copy", 64))
    figure = drawn(*spans)
    assert len(figure.select("rect.copy")) < 1000
    assert all("pale" in bar["class"] for bar in figure.select("rect.copy"))
    assert figure.select("rect.kernel.pale") == []
    assert "A pale bar stands for many" in figure.get_text()
    assert "A pale bar" not in drawn(*SPANS).get_text()


def test_each_bar_has_a_row_in_the_table(figure):
    assert [texts(row.select("td")) for row in figure.select("tbody tr")] == [
        ["Python", "mm", "operation", "0", "40.00"],
        ["Python", "item", "wait", "40.00", "360.0"],
        ["cuda:0 stream 0", "mm <float>", "kernel", "40.00", "350.0"],
        ["cuda:0 copies in", "copy", "copy", "10.00", "0.0010"],
    ]
    caption = figure.caption.get_text()
    assert "Python: 1 operation, 1 wait; cuda:0 stream 0: 1 kernel" in caption


def test_a_timeline_is_described_in_words(figure):
    assert figure.figcaption.get_text() == "Timeline, modelled for a T4: ≈ 400 µs"
    label = 'A "long" wait. The table below has its numbers.'
    assert figure.svg["aria-label"] == label
    assert "the first 3 spans were dropped" in figure.get_text()


LANES = {"Python": "operation", "cuda:1 stream 0": "kernel", "cuda:1 NCCL": "kernel"}


def spans_of(*ranks):
    """Return the spans of an all-reduce: in three lanes for each rank."""
    spans = []
    for rank in ranks:
        for lane, kind in LANES.items():
            spans.append(Span(f"{rank}{lane}", "all_reduce", 0, 1000, kind))
    return spans


def test_ranks_are_set_apart_where_another_begins():
    figure = drawn(*spans_of("rank 0: ", "rank 1: ", "rank 10: "))
    heights = [int(line["y1"]) for line in figure.select(".between-ranks")]
    assert heights == [3 * ROW, 6 * ROW]
    first_rows = figure.select(".first-of-rank")
    assert texts(row.b for row in first_rows) == ["rank 1: Python", "rank 10: Python"]
    legend = figure.select(".timeline-head li")
    assert texts(legend) == ["operation", "kernel on cuda:1"]


def test_one_process_is_not_set_apart():
    assert not drawn(*spans_of("")).select(".between-ranks, .first-of-rank")


@pytest.mark.parametrize(
    "span",
    [
        *SPANS,
        *spans_of("rank 1: "),
        Span("xpu:1 stream 0", "x", 0, 1, "kernel"),
        Span("mps stream 0", "x", 0, 1, "kernel"),
        Span("Python", "x", 0, 1, "sleep"),
    ],
)
def test_a_bar_looks_and_means_what_cudasim_says(span):
    [bar] = timeline(span).bars()
    assert paint(bar.lane, bar.kind) == drawing.paint(bar)
    assert meaning(bar.lane, bar.kind) == drawing.meaning(bar)


def test_a_page_shows_the_drawing_instead_of_the_notebooks_own():
    assert MIME == MIME_OF_CUDASIM
    shown = timeline(*SPANS)._repr_mimebundle_()
    recorded = new_output("display_data", data=shown)
    [output] = page_safe([recorded], "A long wait.")
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
def test_bars_that_cannot_be_drawn_are_one_line(payload):
    fault = f"an output of the type {MIME} cannot be drawn"
    with refused(fault, "execute its chapter again"):
        timeline_html(payload)
