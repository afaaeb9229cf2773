"""The scaling model: its formulas by hand, and its links. `facts/scaling.md` keeps its ratios."""

import json

import pytest

from cudasim.timing import scaling
from cudasim.timing.scaling import Cluster, Link, all_reduce_seconds, links
from cudasim.timing.sheets import sheet_names
from facts.training import BUCKET, FIRST, Training, step_of

FAST, SLOW = Link("fast", 100e9, 2e-6), Link("slow", 1e9, 50e-6)


def by_turns(size, gpus, link):
    """A ring, one step after the other: each GPU sends a share of its tensor to the next."""
    seconds, have = (
        0.0,
        [{rank} for rank in range(gpus)],
    )  # of share 0: whose terms are in it
    for _ in range(2 * (gpus - 1)):
        have = [have[rank] | have[rank - 1] for rank in range(gpus)]
        seconds += size / gpus / link.bandwidth + link.latency
    assert have == [set(range(gpus))] * gpus
    return seconds


@pytest.mark.parametrize("gpus", [2, 3, 8])
def test_a_ring_takes_what_its_turns_take(gpus):
    for size in (8, 2**30):
        seconds = all_reduce_seconds(size, Cluster(gpus, gpus, FAST))
        assert seconds == pytest.approx(by_turns(size, gpus, FAST))


@pytest.mark.parametrize(("link", "microseconds"), [("nvlink4", 26), ("nvlink3", 45)])
def test_the_smallest_all_reduce_takes_what_was_published(link, microseconds):
    seconds = all_reduce_seconds(4, Cluster(8, 8, links("inside")[link]))
    assert seconds == pytest.approx(microseconds * 1e-6, rel=0.01)


def test_between_servers_the_slower_link_counts():
    many = Cluster(16, 8, FAST, SLOW)
    huge = 2**33
    bytes_alone = 2 * 15 / 16 * huge / SLOW.bandwidth
    assert all_reduce_seconds(huge, many) == pytest.approx(bytes_alone, rel=0.01)
    shared = all_reduce_seconds(huge, many._replace(cards=4))
    assert shared == pytest.approx(bytes_alone / 4, rel=0.01)
    enough = many._replace(cards=1000)  # then NVLink is the slower one
    fastest = 2 * 15 / 16 * huge / FAST.bandwidth
    assert all_reduce_seconds(huge, enough) == pytest.approx(fastest, rel=0.01)


def test_small_sums_take_a_tree_and_large_ones_a_ring():
    cluster = Cluster(1024, 8, FAST, SLOW)
    tree = (
        2 * 7 * FAST.latency + 2 * 7 * SLOW.latency
    )  # 128 servers: 7 steps up, 7 down
    assert all_reduce_seconds(4, cluster) == pytest.approx(tree, rel=0.01)
    ring = 2 * 1023 / 1024 * 2**40 / SLOW.bandwidth
    assert all_reduce_seconds(2**40, cluster) == pytest.approx(ring, rel=0.01)
    for gpus, depth in ((9, 1), (17, 2), (40, 3)):  # not full, or not two to a power
        seconds = all_reduce_seconds(4, Cluster(gpus, 8, FAST, SLOW))
        assert seconds <= 2 * 7 * FAST.latency + 2 * depth * SLOW.latency + 1e-7
    assert all_reduce_seconds(2**30, Cluster(1, 8, FAST)) == 0


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (Cluster(0, 8, FAST), "0 GPUs, 8 a server, 1 network cards: one at least"),
        (Cluster(2, 0, FAST), "2 GPUs, 0 a server, 1 network cards: one at least"),
        (Cluster(16, 8, FAST), "16 GPUs with 8 a server need a link between servers"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(cluster, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        all_reduce_seconds(4, cluster)


def test_only_the_last_bucket_shows_where_links_keep_up():
    cluster, gradients = Cluster(8, 8, FAST), FIRST + 4 * BUCKET
    found = step_of(Training(1.0, gradients), cluster)
    last = all_reduce_seconds(BUCKET, cluster)
    assert found.exposed == pytest.approx(last)
    alone = step_of(Training(1.0, FIRST // 2), cluster)  # one bucket hides nothing
    assert alone.exposed == pytest.approx(all_reduce_seconds(FIRST // 2, cluster))
    assert found.communication == pytest.approx(
        4 * last + all_reduce_seconds(FIRST, cluster)
    )


def test_all_but_the_backward_pass_shows_where_links_are_slow():
    cluster, gradients = Cluster(2, 1, FAST, SLOW), FIRST + 4 * BUCKET
    found = step_of(Training(1e-3, gradients), cluster)
    begun = 1e-3 - 2e-3 / 3 * (1 - FIRST / gradients)  # when the first bucket is ready
    assert found.step == pytest.approx(begun + found.communication)


def test_links_are_sourced_and_every_card_has_one():
    listed = json.loads(scaling.PATH.read_text(encoding="utf-8"))
    ids = [each["id"] for where in listed.values() for each in where]
    assert len(ids) == len(set(ids))
    for where in listed.values():
        for each in where:
            assert all(
                each["sources"][figure] for figure in ("line", "share", "latency")
            )
            assert each["share"] < 1 and each["latency"] < 1e-4 < each["line"]
    cards = [card for each in listed["inside"] for card in each["cards"]]
    assert sorted(cards) == sorted(sheet_names())
