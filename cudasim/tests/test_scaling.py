"""The scaling model: its formulas by hand, and its links. `facts/scaling.md` keeps its ratios."""

import json

import pytest
from calls import raised

from cudasim.timing import scaling
from cudasim.timing.scaling import Cluster, Link, all_reduce_seconds, links
from cudasim.timing.sheets import sheet_names
from facts.training import BUCKET, FIRST, Training, step_of

FAST = Link("fast", 100e9, 2e-6)
SLOW = Link("slow", 1e9, 50e-6)


def by_turns(size, gpus, link):
    """A ring, one step after the other: each GPU sends a share of its tensor to the next."""
    seconds = 0.0
    summed = [{rank} for rank in range(gpus)]  # of share 0: whose are in it, by rank
    for _ in range(2 * (gpus - 1)):
        received = [summed[rank - 1] for rank in range(gpus)]
        for rank in range(gpus):
            summed[rank] = summed[rank] | received[rank]
        seconds += size / gpus / link.bandwidth + link.latency
    for ranks in summed:
        assert ranks == set(range(gpus))
    return seconds


@pytest.mark.parametrize("gpus", [2, 3, 8])
def test_a_ring_takes_what_its_turns_take(gpus):
    for size in (8, 2**30):
        seconds = all_reduce_seconds(size, Cluster(gpus, gpus, FAST))
        assert seconds == pytest.approx(by_turns(size, gpus, FAST))


@pytest.mark.parametrize(("link", "microseconds"), [("nvlink4", 26), ("nvlink3", 45)])
def test_the_smallest_all_reduce_takes_what_was_published(link, microseconds):
    server = Cluster(8, 8, links("inside")[link])
    seconds = all_reduce_seconds(4, server)
    assert seconds == pytest.approx(microseconds * 1e-6, rel=0.01)


def test_between_servers_the_slower_link_counts():
    size = 2**33
    sent = 2 * 15 / 16 * size  # by each of 16 GPUs
    cluster = Cluster(16, 8, FAST, SLOW)
    one_card = sent / SLOW.bandwidth
    assert all_reduce_seconds(size, cluster) == pytest.approx(one_card, rel=0.01)

    four = all_reduce_seconds(size, cluster._replace(cards=4))
    assert four == pytest.approx(one_card / 4, rel=0.01)

    # With so many network cards NVLink is the slower one.
    many = all_reduce_seconds(size, cluster._replace(cards=1000))
    assert many == pytest.approx(sent / FAST.bandwidth, rel=0.01)


def test_small_sums_take_a_tree_and_large_ones_a_ring():
    cluster = Cluster(1024, 8, FAST, SLOW)
    # 128 servers: 7 steps up, 7 down.
    tree = 2 * 7 * FAST.latency + 2 * 7 * SLOW.latency
    assert all_reduce_seconds(4, cluster) == pytest.approx(tree, rel=0.01)
    ring = 2 * 1023 / 1024 * 2**40 / SLOW.bandwidth
    assert all_reduce_seconds(2**40, cluster) == pytest.approx(ring, rel=0.01)


@pytest.mark.parametrize(("gpus", "depth"), [(9, 1), (17, 2), (40, 3)])
def test_a_tree_need_not_be_full(gpus, depth):
    seconds = all_reduce_seconds(4, Cluster(gpus, 8, FAST, SLOW))
    in_servers = 2 * 7 * FAST.latency
    between_servers = 2 * depth * SLOW.latency
    assert seconds <= in_servers + between_servers + 1e-7


def test_one_gpu_has_nothing_to_send():
    assert all_reduce_seconds(2**30, Cluster(1, 8, FAST)) == 0


def refusal(cluster):
    return raised(lambda: all_reduce_seconds(4, cluster), ValueError)


def test_a_cluster_that_cannot_be_is_refused():
    error = refusal(Cluster(0, 8, FAST))
    assert error == "0 GPUs, 8 a server, 1 network cards: one at least"
    error = refusal(Cluster(2, 0, FAST))
    assert error == "2 GPUs, 0 a server, 1 network cards: one at least"
    error = refusal(Cluster(16, 8, FAST))
    assert error == "16 GPUs with 8 a server need a link between servers"


def test_only_the_last_bucket_shows_where_links_keep_up():
    cluster = Cluster(8, 8, FAST)
    step = step_of(Training(1.0, FIRST + 4 * BUCKET), cluster)
    first = all_reduce_seconds(FIRST, cluster)
    last = all_reduce_seconds(BUCKET, cluster)
    assert step.exposed == pytest.approx(last)
    assert step.communication == pytest.approx(first + 4 * last)


def test_one_bucket_hides_nothing():
    cluster = Cluster(8, 8, FAST)
    half = FIRST // 2
    step = step_of(Training(1.0, half), cluster)
    assert step.exposed == pytest.approx(all_reduce_seconds(half, cluster))


def test_slow_links_show_all_but_the_backward_pass():
    gradients = FIRST + 4 * BUCKET
    step = step_of(Training(1e-3, gradients), Cluster(2, 1, FAST, SLOW))
    first_ready = 1e-3 - 2e-3 / 3 * (1 - FIRST / gradients)
    assert step.step == pytest.approx(first_ready + step.communication)


def test_links_are_sourced_and_every_card_has_one():
    listed = json.loads(scaling.PATH.read_text(encoding="utf-8"))
    every = listed["inside"] + listed["between"]
    ids = [link["id"] for link in every]
    assert len(ids) == len(set(ids))
    for link in every:
        for figure in ("line", "share", "latency"):
            assert link["sources"][figure]
        assert link["share"] < 1
        assert link["latency"] < 1e-4 < link["line"]

    cards = []
    for link in listed["inside"]:
        cards += link["cards"]
    assert sorted(cards) == sorted(sheet_names())
