"""Collectives on the virtual clock: ranks that meet, NCCL's own stream, all ranks on a timeline."""

import json

import pytest
import torch
import torch.distributed as dist
from calls import raised
from programs import run_ranks, write

import cudasim
from cudasim.backends.cuda.distributed import clocks
from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from cudasim.timing.scaling import Cluster, collective_seconds, links

HEAD = """
    import dataclasses, json, os, time
    import torch, torch.distributed as dist
    import cudasim
    from cudasim.clock.clock import Span
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    here = torch.device("cuda", rank)
    dist.init_process_group("nccl")
    def tell(**facts):
        with open(f"{rank}.json", "w") as file:
            json.dump(facts, file)
    def spans(lanes):
        return [dataclasses.astuple(span) for span in lanes.spans]
    def meet():
        torch.cuda.synchronize(); dist.barrier()
    dist.all_reduce(torch.ones(1, device=here)); meet()  # the first time something is loaded
"""
SIZE = 4 * 2**22


def launch(tmp_path, text, card="T4", **variables):
    """Return what each of two ranks tells of its modelled run of a program."""
    program = HEAD + text + "\n    dist.destroy_process_group()\n"
    script = write(tmp_path / "worker.py", program)
    simulation = ["-m", "cudasim", "--clock", "modelled", "--card", card]
    for result in run_ranks(*simulation, script, cwd=tmp_path, **variables):
        assert result.returncode == 0, result.stderr
    return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]


def in_lane(rows, lane, kind="kernel"):
    """Return {name: span} of the spans of a kind in lanes whose names end so, the last of each."""
    found = {}
    for row in rows:
        span = Span(*row)
        if span.lane.endswith(lane) and span.kind == kind:
            found[span.name] = span
    return found


def duration(span):
    return span.end - span.start


def ring_seconds():
    """Return what an all-reduce of two T4 takes on 80 % of PCIe 3, which has 15.75 GB/s."""
    return SIZE / (0.8 * 15.75e9)


TIMES = """
    x = torch.ones(2**22, device=here)
    meet()
    if rank == 1:
        time.sleep(0.25)  # the slowest
    with cudasim.timeline() as plain:
        dist.all_reduce(x); y = x * 2
        torch.cuda.synchronize()
    dist.barrier()
    a = torch.ones(2000, 2000, device=here); a @ a; meet()
    with cudasim.timeline() as beside:
        work = dist.all_reduce(x, async_op=True)
        a @ a
        before = time.perf_counter(); work.wait(); waited = time.perf_counter() - before
        z = x * 3
        torch.cuda.synchronize()
    half = torch.empty(2**21, device=here)
    dist.barrier()
    with cudasim.timeline() as scattered:
        dist.reduce_scatter_tensor(half, x)
        dist.all_gather_into_tensor(x, half)
        torch.cuda.synchronize()
    dist.barrier()
    with cudasim.timeline() as barrier:
        if rank == 0:
            time.sleep(0.1)
        dist.barrier()
    tell(plain=spans(plain), beside=spans(beside), scattered=spans(scattered),
         barrier=spans(barrier), waited=waited)
"""


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("times"), TIMES)


def test_an_all_reduce_begins_with_the_last_rank(times):
    first, second = (in_lane(told["plain"], "stream 0") for told in times)
    reduce = first["all_reduce"]
    assert reduce.start == second["all_reduce"].start
    assert reduce.end == second["all_reduce"].end
    assert duration(reduce) == pytest.approx(ring_seconds() * 1e9, rel=0.02)

    wait = in_lane(times[0]["plain"], "stream 0", "wait")["wait for rank 1"]
    assert wait.end == reduce.start
    assert duration(wait) == pytest.approx(0.25e9, rel=0.01)
    assert first["mul"].start >= reduce.end
    assert second["mul"].start >= reduce.end


def test_what_is_asynchronous_runs_on_a_stream_of_nccl(times):
    for told in times:
        (reduce,) = in_lane(told["beside"], "NCCL").values()
        kernels = in_lane(told["beside"], "stream 0")
        product, scaled = kernels["mm"], kernels["mul"]
        # Side by side.
        assert product.start < reduce.end
        assert reduce.start < product.end
        assert scaled.start >= max(reduce.end, product.end)
        assert told["waited"] < 1e-4  # the host goes on


def test_halves_of_an_all_reduce_take_half_its_time(times):
    for told in times:
        whole = in_lane(told["plain"], "stream 0")["all_reduce"]
        halves = in_lane(told["scattered"], "stream 0")
        for name in ("reduce_scatter", "all_gather"):
            assert duration(halves[name]) == pytest.approx(duration(whole) / 2, abs=1)


def test_a_barrier_blocks_the_host_of_who_comes_first(times):
    late, early = (in_lane(told["barrier"], "Python", "wait") for told in times)
    assert duration(early["barrier"]) > 0.09e9 > duration(late["barrier"])


TRAIN = """
    from torch.nn.parallel import DistributedDataParallel
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).to(here)
    net = DistributedDataParallel(net, bucket_cap_mb=2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    X = torch.ones(2048 + 2048 * rank, 512, device=here)  # rank 1 has twice the work
    def step():
        optimizer.zero_grad(); net(X).sum().backward(); optimizer.step()
    step(); step(); meet()
    with cudasim.timeline() as lanes:
        step(); torch.cuda.synchronize()
    both = lanes.gather()
    assert rank or both.save("ranks.json") is None
    tell(spans=spans(lanes), both=spans(both), text=str(both), busy=both.busy("rank 1: cuda:1"))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    return folder, launch(folder, TRAIN)


def test_gradients_are_sent_during_the_backward_pass(trained):
    _, ranks = trained
    for told in ranks:
        kernels = [Span(*row) for row in told["spans"] if row[4] == "kernel"]
        sent = [span for span in kernels if span.lane.endswith("NCCL")]
        computed = [span for span in kernels if not span.lane.endswith("NCCL")]
        assert len(sent) >= 3
        assert {span.name for span in sent} == {"all_reduce"}
        assert computed[-1].start >= sent[-1].end  # the optimizer's come after the last

    # These are of rank 1, the slowest.
    products = [span for span in computed if span.name == "mm"]
    assert sent[0].start < products[-1].end
    first, second = (in_lane(told["spans"], "NCCL", "wait") for told in ranks)
    assert [*first] == ["wait for rank 1"]
    assert not second


@pytest.mark.full
def test_a_run_is_the_same_every_time(trained, tmp_path):
    _, ranks = trained
    assert launch(tmp_path, TRAIN) == ranks


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
    for rank, told in enumerate((first, second)):
        for lane, *rest in told["spans"]:
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


SERVERS = """
    os.environ["GROUP_RANK"] = str(rank)  # as two agents of torchrun set it
    x = torch.ones(2**22, device=here)
    torch.cuda.synchronize()
    with cudasim.timeline() as lanes:
        dist.all_reduce(x); torch.cuda.synchronize()
    before, said = spans(lanes), []
    os.environ["CUDASIM_NETWORK"] = "string"
    lanes.fill([Span("Python", "mm", 0, 5, "operation")], "measured on a card")
    for call in (lambda: dist.all_reduce(x), lanes.gather):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            said.append(str(error))
    tell(spans=before, said=said)
"""


@pytest.mark.parametrize("name", ["eth10", None])
def test_ranks_on_two_servers_use_the_network(tmp_path, name):
    variables = {clocks.NETWORK: name} if name else {}
    bandwidth = links("between")[name or clocks.USUAL].bandwidth
    for told in launch(tmp_path, SERVERS, **variables):
        reduce = in_lane(told["spans"], "stream 0")["all_reduce"]
        expected = max(SIZE / bandwidth, ring_seconds())
        assert duration(reduce) == pytest.approx(expected * 1e9, rel=0.05)

        of_network, of_gather = told["said"]
        words = "CUDASIM_NETWORK='string': unknown; there are eth10, eth25"
        assert of_network.startswith(words)
        words = "gather(): only modelled times of several processes"
        assert of_gather.startswith(words)


MESSAGE = """
    x = torch.full((2**22,), float(rank), device=here)
    y = torch.empty_like(x)
    meet()
    with cudasim.timeline() as lanes:
        if rank == 0:
            time.sleep(0.1)
            dist.send(x, 1)
        else:
            dist.recv(x, 0); x += 1
        torch.cuda.synchronize()
    dist.barrier()
    with cudasim.timeline() as both:  # each sends and receives at once
        ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        y += 1
        torch.cuda.synchronize()
    tell(spans=spans(lanes), both=spans(both), value=[x[0].item(), y[0].item()])
"""


def test_a_message_takes_the_time_of_its_link(tmp_path):
    sender, receiver = launch(tmp_path, MESSAGE, card="A100")
    (sent,) = in_lane(sender["spans"], "NCCL").values()
    (received,) = in_lane(receiver["spans"], "NCCL").values()
    assert (sent.start, sent.end) == (received.start, received.end)
    link = links("inside")["nvlink3"]
    through = SIZE / link.bandwidth + link.latency
    assert duration(sent) == pytest.approx(through * 1e9, abs=1)

    (wait,) = in_lane(receiver["spans"], "NCCL", "wait").values()
    assert wait.name == "wait for rank 0"
    assert duration(wait) > 0.09e9
    assert in_lane(receiver["spans"], "stream 0")["add_"].start >= received.end
    assert sender["value"] == [0, 2]
    assert receiver["value"] == [1, 1]
    for told in (sender, receiver):
        messages = in_lane(told["both"], "NCCL")
        assert set(messages) == {"send", "recv"}
        added = in_lane(told["both"], "stream 0")["add_"]
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
    before = dist.Work.wait, torch.autograd._engine_run_backward
    with cudasim.simulate(clock="modelled"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            x = torch.ones(2**20, device="cuda")
            with cudasim.timeline() as lanes:
                dist.all_reduce(x)
                dist.all_reduce(x, async_op=True).wait()
            kernels = [span for span in lanes.spans if span.kind == "kernel"]
            used = [span.lane for span in kernels if span.name == "all_reduce"]
            assert used == ["cuda:0 stream 0", "cuda:0 NCCL"]
            assert lanes.gather().spans
        finally:
            dist.destroy_process_group()
    assert (dist.Work.wait, torch.autograd._engine_run_backward) == before
    assert not clocks.of_works
