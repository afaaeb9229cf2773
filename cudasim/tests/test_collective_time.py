"""Collectives on the virtual clock: ranks that meet, NCCL's own stream, all ranks on a timeline."""

import json

import pytest
import torch
import torch.distributed as dist
from programs import run_ranks, write

import cudasim
from cudasim.backends.cuda.distributed import clocks
from cudasim.clock.clock import Span, nanoseconds
from cudasim.clock.timeline import Timeline
from cudasim.timing.scaling import (
    Cluster,
    all_reduce_seconds,
    card_link,
    collective_seconds,
    links,
)
from cudasim.timing.sheets import find_sheet

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
    """What each of two ranks tells of its modelled run of a program."""
    script = write(
        tmp_path / "worker.py", HEAD + text + "\n    dist.destroy_process_group()\n"
    )
    clock = ["-m", "cudasim", "--clock", "modelled", "--card", card]
    for got in run_ranks(*clock, script, cwd=tmp_path, **variables):
        assert got.returncode == 0, got.stderr
    return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]


def in_lane(spans, lane, kind="kernel"):
    """{name: span} of the kernels, or the waits, in lanes whose names end so; the last of each."""
    made = [Span(*each) for each in spans]
    return {
        each.name: each
        for each in made
        if each.lane.endswith(lane) and each.kind == kind
    }


def taken(span):
    return span.end - span.start


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


def ring(card="T4"):
    return nanoseconds(
        all_reduce_seconds(SIZE, Cluster(2, 2, card_link(find_sheet(card))))
    )


def test_an_all_reduce_takes_what_its_ring_takes_and_begins_with_the_last_rank(times):
    first, second = (in_lane(told["plain"], "stream 0") for told in times)
    reduce, other = first["all_reduce"], second["all_reduce"]
    assert (reduce.start, reduce.end) == (other.start, other.end) and taken(
        reduce
    ) == ring()
    wait = in_lane(times[0]["plain"], "stream 0", "wait")["wait for rank 1"]
    assert wait.end == reduce.start and taken(wait) == pytest.approx(0.25e9, rel=0.01)
    assert min(first["mul"].start, second["mul"].start) >= reduce.end


def test_what_is_asynchronous_runs_on_a_stream_of_nccl_until_somebody_waits(times):
    for told in times:
        (reduce,) = in_lane(told["beside"], "NCCL").values()
        product, scaled = (
            in_lane(told["beside"], "stream 0")[name] for name in ("mm", "mul")
        )
        assert (
            product.start < reduce.end and reduce.start < product.end
        )  # beside each other
        assert scaled.start >= max(reduce.end, product.end)
        assert told["waited"] < 1e-4  # the host goes on


def test_halves_of_an_all_reduce_take_half_its_time(times):
    for told in times:
        found = in_lane(told["scattered"], "stream 0")
        for name in ("reduce_scatter", "all_gather"):
            assert taken(found[name]) == pytest.approx(ring() / 2, abs=1)


def test_a_barrier_blocks_the_host_of_who_comes_first(times):
    late, early = (
        taken(in_lane(told["barrier"], "Python", "wait")["barrier"]) for told in times
    )
    assert early > 0.09e9 > late


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


def test_gradients_go_beside_the_backward_pass_and_the_optimizer_waits(trained):
    for told in trained[1]:
        kernels = [Span(*each) for each in told["spans"] if each[4] == "kernel"]
        sent = [each for each in kernels if each.lane.endswith("NCCL")]
        others = [each for each in kernels if each not in sent]
        assert len(sent) >= 3 and {each.name for each in sent} == {"all_reduce"}
        assert others[-1].start >= sent[-1].end  # the optimizer's come after the last
    products = [each for each in others if each.name == "mm"]  # of rank 1, the slowest
    assert sent[0].start < products[-1].end
    waits = [in_lane(told["spans"], "NCCL", "wait") for told in trained[1]]
    assert [*waits[0]] == ["wait for rank 1"] and not waits[1]


@pytest.mark.full
def test_a_run_is_the_same_every_time(trained, tmp_path):
    assert launch(tmp_path, TRAIN) == trained[1]


def test_every_rank_gets_the_timeline_of_all(trained):
    folder, (first, second) = trained
    assert first["both"] == second["both"] and first["text"] == second["text"]
    heading, *lines = first["text"].splitlines()
    assert heading.startswith("timeline, modelled for a T4, 2 ranks: ≈ ")
    assert [line.rpartition(": ")[0] for line in lines] == [
        f"rank {rank}: {lane}"
        for rank in range(2)
        for lane in ("Python", f"cuda:{rank} stream 0", f"cuda:{rank} NCCL")
    ]
    for rank, told in enumerate((first, second)):
        mine = [
            each[1:] for each in told["both"] if each[0].startswith(f"rank {rank}: ")
        ]
        assert sorted(mine, key=str) == sorted(
            (each[1:] for each in told["spans"]), key=str
        )
    assert 0 < first["busy"] <= 1
    assert str(Timeline.load(folder / "ranks.json")) == first["text"]


def test_load_refuses_what_save_has_not_written(tmp_path):
    path, words = (
        tmp_path / "other.json",
        r"other.json: not a timeline that save\(\) has written",
    )
    for text in ("{}", "[]", '{"otherData": 3}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            Timeline.load(path)


def test_gather_needs_ranks():
    with cudasim.simulate(clock="modelled"):
        torch.ones(2, device="cuda")
        with pytest.raises(
            RuntimeError, match=r"^gather\(\): there are no ranks; call"
        ):
            cudasim.timeline().gather()


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
    variables = {} if name is None else {clocks.NETWORK: name}
    network = links("between")[name or clocks.USUAL]
    expected = all_reduce_seconds(
        SIZE, Cluster(2, 1, card_link(find_sheet("T4")), network)
    )
    for told in launch(tmp_path, SERVERS, **variables):
        reduce = in_lane(told["spans"], "stream 0")["all_reduce"]
        assert taken(reduce) == nanoseconds(expected) > ring()
        of_network, of_gather = told["said"]
        assert of_network.startswith(
            "CUDASIM_NETWORK='string': unknown; there are eth10, eth25"
        )
        assert of_gather.startswith(
            "gather(): only modelled times of several processes"
        )


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


def test_a_message_takes_the_time_of_its_link_and_its_receiver_waits(tmp_path):
    sender, receiver = launch(tmp_path, MESSAGE, card="A100")
    link = card_link(find_sheet("A100"))
    (sent,), (got,) = (
        in_lane(told["spans"], "NCCL").values() for told in (sender, receiver)
    )
    assert (sent.start, sent.end) == (got.start, got.end)
    assert taken(sent) == nanoseconds(link.latency + SIZE / link.bandwidth)
    ((name, wait),) = in_lane(receiver["spans"], "NCCL", "wait").items()
    assert name == "wait for rank 0" and taken(wait) > 0.09e9
    assert in_lane(receiver["spans"], "stream 0")["add_"].start >= got.end
    assert sender["value"] == [0, 2] and receiver["value"] == [1, 1]
    for told in (sender, receiver):
        found = in_lane(told["both"], "NCCL")
        assert set(found) == {"send", "recv"}
        assert in_lane(told["both"], "stream 0")["add_"].start >= found["recv"].end


def test_other_collectives_move_what_nccl_tests_says():
    link = links("inside")["nvlink3"]
    one, many = Cluster(1, 8, link), Cluster(8, 8, link)
    huge = 2**34
    shares = dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), 7 / 8)
    for name, share in {
        "all_reduce": 14 / 8,
        "broadcast": 1,
        "reduce": 1,
        **shares,
    }.items():
        through = share * huge / link.bandwidth
        assert collective_seconds(name, huge, many) == pytest.approx(through, rel=0.001)
        assert collective_seconds(name, huge, one) == 0


def test_a_group_of_one_rank_meets_nobody():
    before = dist.Work.wait, torch.autograd._engine_run_backward
    with cudasim.simulate(clock="modelled"):
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
        try:
            x = torch.ones(2**20, device="cuda")
            with cudasim.timeline() as lanes:
                dist.all_reduce(x)
                dist.all_reduce(x, async_op=True).wait()
            reduces = [
                s for s in lanes.spans if s.name == "all_reduce" and s.kind == "kernel"
            ]
            assert [s.lane for s in reduces] == ["cuda:0 stream 0", "cuda:0 NCCL"]
            assert all(isinstance(s, Span) for s in lanes.gather().spans)
        finally:
            dist.destroy_process_group()
    assert (dist.Work.wait, torch.autograd._engine_run_backward) == before
    assert not clocks.of_works
