"""A timeline of several ranks on a page: set apart, in the colours of their GPUs."""

from bs4 import BeautifulSoup

from cudasim.clock.clock import Span
from cudasim.clock.drawing import meaning as meaning_drawn
from cudasim.clock.drawing import paint as paint_drawn
from cudasim.clock.timeline import Timeline
from tools.site.timeline import ROW, meaning, paint, timeline_html

LANES = ("Python", "cuda:1 stream 0", "cuda:1 NCCL")


def drawn(ranks):
    """The figure of a timeline whose lanes are those of LANES, for each of `ranks`."""
    kinds = ("operation", "kernel", "kernel")
    spans = [
        Span(f"{rank}{lane}", "all_reduce", 0, 1000, kind)
        for rank in ranks
        for lane, kind in zip(LANES, kinds, strict=True)
    ]
    spans += [Span(f"{ranks[0]}{LANES[2]}", "wait for rank 1", 1000, 2000, "wait")]
    timeline = Timeline()
    timeline.fill(spans, "modelled for a T4")
    return timeline, BeautifulSoup(timeline_html(timeline.payload()), "html.parser")


def test_ranks_are_set_apart_where_another_begins():
    _, figure = drawn(["rank 0: ", "rank 1: ", "rank 10: "])
    assert [line["y1"] for line in figure.select(".between-ranks")] == [f"{3 * ROW}", f"{6 * ROW}"]
    firsts = [row.b.get_text() for row in figure.select(".first-of-rank")]
    assert firsts == ["rank 1: Python", "rank 10: Python"]
    assert not drawn([""])[1].select(".between-ranks, .first-of-rank")


def test_a_rank_has_the_colours_of_its_gpu_on_the_page_and_in_the_drawing():
    timeline, figure = drawn(["rank 0: ", "rank 1: "])
    for bar in timeline.bars():
        assert paint(bar.lane, bar.kind) == paint_drawn(bar)
        assert meaning(bar.lane, bar.kind) == meaning_drawn(bar)
    keys = [item.get_text() for item in figure.select(".timeline-head li")]
    assert sorted(keys) == ["kernel on cuda:1", "operation", "wait"]
    assert len(figure.select("rect.wait")) == 1
