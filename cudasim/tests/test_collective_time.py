"""Collectives on the virtual clock: ranks that meet, NCCL's own stream, all ranks on a timeline."""

import json

import pytest
import torch
import torch.distributed as dist
from calls import raised
from programs import SCRIPTS, run_ranks

import cudasim
from cudasim.backends.cuda.distributed import clocks
from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from cudasim.timing.scaling import Cluster, collective_seconds, links

SIZE = 4 * 2**22


def launch(tmp_path, script, card="T4", **variables):
    """Return what each of two ranks answers in its modelled run of a script."""
    simulation = ["-m", "cudasim", "--clock", "modelled", "--card", card]
    results = run_ranks(*simulation, SCRIPTS / script, cwd=tmp_path, **variables)
    answers = []
    for rank, result in enumerate(results):
        assert result.returncode == 0, result.stderr
        text = (tmp_path / f"{rank}.json").read_text()
        answers.append(json.loads(text))
    return answers


def in_lane(rows, lane, kind="kernel"):
    """Return the spans of a kind in lanes whose names end so, by name, the last of each."""
    spans = {}
    for row in rows:
        span = Span(*row)
        if span.lane.endswith(lane) and span.kind == kind:
            spans[span.name] = span
    return spans


def duration(span):
    return span.end - span.start


def ring_seconds():
    """Return what an all-reduce of two T4 takes on 80 % of PCIe 3, which has 15.75 GB/s."""
    return SIZE / (0.8 * 15.75e9)


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("times"), "modelled_collectives.py")


def test_an_all_reduce_begins_with_the_last_rank(times):
    spans_of_first, spans_of_second = times[0]["plain"], times[1]["plain"]
    first = in_lane(spans_of_first, "stream 0")
    second = in_lane(spans_of_second, "stream 0")
    reduce = first["all_reduce"]
    assert reduce.start == second["all_reduce"].start
    assert reduce.end == second["all_reduce"].end
    assert duration(reduce) == pytest.approx(ring_seconds() * 1e9, rel=0.02)

    waits = in_lane(spans_of_first, "stream 0", "wait")
    wait = waits["wait for rank 1"]
    assert wait.end == reduce.start
    assert duration(wait) == pytest.approx(0.25e9, rel=0.01)
    assert first["mul"].start >= reduce.end
    assert second["mul"].start >= reduce.end


def test_what_is_asynchronous_runs_on_a_stream_of_nccl(times):
    for answers in times:
        (reduce,) = in_lane(answers["beside"], "NCCL").values()
        kernels = in_lane(answers["beside"], "stream 0")
        product = kernels["mm"]
        scaled = kernels["mul"]
        # Side by side.
        assert product.start < reduce.end
        assert reduce.start < product.end
        assert scaled.start >= max(reduce.end, product.end)
        assert answers["waited"] < 1e-4  # the host goes on


def test_halves_of_an_all_reduce_take_half_its_time(times):
    for answers in times:
        whole = in_lane(answers["plain"], "stream 0")["all_reduce"]
        halves = in_lane(answers["halves"], "stream 0")
        half_the_time = pytest.approx(duration(whole) / 2, abs=1)
        assert duration(halves["reduce_scatter"]) == half_the_time
        assert duration(halves["all_gather"]) == half_the_time


def test_a_barrier_blocks_the_host_of_who_comes_first(times):
    late, early = times
    wait_of_late = in_lane(late["barrier"], "Python", "wait")["barrier"]
    wait_of_early = in_lane(early["barrier"], "Python", "wait")["barrier"]
    assert duration(wait_of_late) < 0.09e9 < duration(wait_of_early)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return folder, launch(folder, "modelled_training.py")


def kernels_of(rows):
    """Return the kernels that NCCL runs, and those of the program."""
    sent, computed = [], []
    for row in rows:
        span = Span(*row)
        if span.kind != "kernel":
            continue
        if span.lane.endswith("NCCL"):
            sent.append(span)
        else:
            computed.append(span)
    return sent, computed


def test_gradients_are_sent_during_the_backward_pass(trained):
    _, ranks = trained
    for answers in ranks:
        sent, computed = kernels_of(answers["own"])
        assert len(sent) >= 3
        assert {span.name for span in sent} == {"all_reduce"}
        assert computed[-1].start >= sent[-1].end  # the optimizer's come after the last

    first, second = ranks
    waits = in_lane(first["own"], "NCCL", "wait")
    assert list(waits) == ["wait for rank 1"]
    assert not in_lane(second["own"], "NCCL", "wait")

    # The slowest sends while it still computes.
    sent, computed = kernels_of(second["own"])
    products = [span for span in computed if span.name == "mm"]
    assert sent[0].start < products[-1].end


@pytest.mark.full
def test_a_run_is_the_same_every_time(trained, tmp_path):
    _, ranks = trained
    assert launch(tmp_path, "modelled_training.py") == ranks


def test_every_rank_gets_the_timeline_of_all(trained):
    folder, (first, second) = trained
    assert first["both"] == second["both"]
    assert first["text"] == second["text"]
    assert 0 < first["busy"] <= 1
    assert str(Timeline.load(folder / "ranks.json")) == first["text"]

    heading, *lines = first["text"].splitlines()
    assert heading.startswith("timeline, modelled for a T4, 2 ranks: ≈ ")
    assert [line.rpartition(": ")[0] for line in lines] == [
        "rank 0: Python",
        "rank 0: cuda:0 stream 0",
        "rank 0: cuda:0 NCCL",
        "rank 1: Python",
        "rank 1: cuda:1 stream 0",
        "rank 1: cuda:1 NCCL",
    ]

    together = []
    for rank, answers in enumerate((first, second)):
        for lane, *rest in answers["own"]:
            together.append([f"rank {rank}: {lane}", *rest])
    assert sorted(first["both"], key=str) == sorted(together, key=str)


@pytest.mark.parametrize("text", ["{}", "[]", '{"otherData": 3}'])
def test_load_refuses_what_save_has_not_written(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    words = raised(lambda: Timeline.load(path), ValueError)
    assert "other.json: not a timeline that save() has written" in words


def test_gather_needs_ranks():
    with cudasim.simulate(clock="modelled"):
        torch.ones(2, device="cuda")
        words = raised(lambda: cudasim.timeline().gather())
    assert words.startswith("gather(): there are no ranks; call")


@pytest.mark.parametrize("name", ["eth10", None])
def test_ranks_on_two_servers_use_the_network(tmp_path, name):
    variables = {clocks.NETWORK: name} if name else {}
    bandwidth = links("between")[name or clocks.USUAL].bandwidth
    expected = max(SIZE / bandwidth, ring_seconds())
    for answers in launch(tmp_path, "modelled_servers.py", **variables):
        reduce = in_lane(answers["spans"], "stream 0")["all_reduce"]
        assert duration(reduce) == pytest.approx(expected * 1e9, rel=0.05)

        words = "CUDASIM_NETWORK='string': unknown; there are eth10, eth25"
        assert answers["of_network"].startswith(words)
        words = "gather(): only modelled times of several processes"
        assert answers["of_gather"].startswith(words)


def test_a_message_takes_the_time_of_its_link(tmp_path):
    sender, receiver = launch(tmp_path, "modelled_messages.py", card="A100")
    (sent,) = in_lane(sender["one_way"], "NCCL").values()
    (received,) = in_lane(receiver["one_way"], "NCCL").values()
    assert sent.start == received.start
    assert sent.end == received.end
    link = links("inside")["nvlink3"]
    through = SIZE / link.bandwidth + link.latency
    assert duration(sent) == pytest.approx(through * 1e9, abs=1)

    (wait,) = in_lane(receiver["one_way"], "NCCL", "wait").values()
    assert wait.name == "wait for rank 0"
    assert duration(wait) > 0.09e9
    sum_of_receiver = in_lane(receiver["one_way"], "stream 0")["add_"]
    assert sum_of_receiver.start >= received.end

    assert sender["values"] == [0, 2]
    assert receiver["values"] == [1, 1]
    for answers in (sender, receiver):
        messages = in_lane(answers["both_ways"], "NCCL")
        assert set(messages) == {"send", "recv"}
        added = in_lane(answers["both_ways"], "stream 0")["add_"]
        assert added.start >= messages["recv"].end


# The share of a tensor that each of 8 ranks moves, by the page PERFORMANCE.md of nccl-tests.
SHARES = {
    "all_reduce": 14 / 8,
    "broadcast": 1,
    "reduce": 1,
    "all_gather": 7 / 8,
    "reduce_scatter": 7 / 8,
    "all_to_all": 7 / 8,
}


@pytest.mark.parametrize(("name", "share"), SHARES.items())
def test_collectives_move_what_nccl_tests_says(name, share):
    link = links("inside")["nvlink3"]
    huge = 2**34
    seconds = collective_seconds(name, huge, Cluster(8, 8, link))
    assert seconds == pytest.approx(share * huge / link.bandwidth, rel=0.001)
    assert collective_seconds(name, huge, Cluster(1, 8, link)) == 0


def test_a_group_of_one_rank_meets_nobody():
    wait = dist.Work.wait
    run_backward = torch.autograd._engine_run_backward
    with cudasim.simulate(clock="modelled"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            x = torch.ones(2**20, device="cuda")
            with cudasim.timeline() as timeline:
                dist.all_reduce(x)
                dist.all_reduce(x, async_op=True).wait()
            kernels = [span for span in timeline.spans if span.kind == "kernel"]
            used = [span.lane for span in kernels if span.name == "all_reduce"]
            assert used == ["cuda:0 stream 0", "cuda:0 NCCL"]
            assert timeline.gather().spans
        finally:
            dist.destroy_process_group()
    assert dist.Work.wait is wait
    assert torch.autograd._engine_run_backward is run_backward
    assert not clocks.of_works


def test_the_operation_after_a_collective_that_fails_is_booked():
    with cudasim.simulate(clock="modelled"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            x = torch.ones(2**20, device="cuda")
            too_small = torch.empty(3, device="cuda")
            with pytest.raises(RuntimeError, match="invalid tensor size"):
                dist.all_gather([too_small], x)
            with cudasim.timeline() as timeline:
                x * 2
            kernels = [span.name for span in timeline.spans if span.kind == "kernel"]
            assert kernels == ["mul"]
        finally:
            dist.destroy_process_group()
