"""Collectives on the virtual clock: ranks that meet, NCCL's own stream, all ranks on a timeline."""

import json

import pytest
import torch
from programs import run_ranks, write

import cudasim
from cudasim.backends.cuda.distributed import clocks
from cudasim.clock.clock import Span, nanoseconds
from cudasim.clock.timeline import Timeline
from cudasim.timing.scaling import Cluster, all_reduce_seconds, card_link, collective_seconds, links
from cudasim.timing.sheets import find_sheet

HEAD = """
    import json, os, sys, time
    import torch, torch.distributed as dist
    import cudasim, cudasim.clock.clock
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    here = torch.device("cuda", rank)
    dist.init_process_group("nccl")
    from cudasim.session import session
    def spans(lanes):  # of NCCL and of what the test does, as the clock has them
        return [[s.lane, s.name, s.start, s.end, s.kind] for s in lanes.spans]
    def tell(**facts):
        with open(f"{rank}.json", "w") as file:
            json.dump(facts, file)
    def warm():  # the first time something is loaded
        dist.all_reduce(torch.ones(1, device=here))
        torch.cuda.synchronize(); dist.barrier()
    warm()
"""
SIZE = 4 * 2**22


def launch(tmp_path, text, card="T4", **variables):
    """What each of two ranks tells of its modelled run of a program."""
    script = write(tmp_path / "worker.py", HEAD + text + "\n    dist.destroy_process_group()\n")
    clock = ["-m", "cudasim", "--clock", "modelled", "--card", card]
    for got in run_ranks(*clock, script, cwd=tmp_path, **variables):
        if got.returncode:
            return got
    return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]


def on_nccl(spans, kind="kernel"):
    return [each for each in spans if "NCCL" in each[0] and each[4] == kind]


TIMES = """
    x = torch.ones(2**22, device=here)
    torch.cuda.synchronize(); dist.barrier()
    if rank == 1:
        time.sleep(0.25)  # the slowest
    with cudasim.timeline() as plain:
        dist.all_reduce(x); y = x * 2
        torch.cuda.synchronize()
    dist.barrier()
    a = torch.ones(2000, 2000, device=here); a @ a; torch.cuda.synchronize(); dist.barrier()
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
         barrier=spans(barrier), waited=waited, now=session.clock.now, value=x[0].item())
"""


@pytest.fixture(scope="module")
def times(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("times"), TIMES)


def ring(size=SIZE, card="T4"):
    return nanoseconds(all_reduce_seconds(size, Cluster(2, 2, card_link(find_sheet(card)))))


def test_an_all_reduce_takes_what_its_ring_takes_and_begins_with_the_last_rank(times):
    (waits, first), (second,) = (
        [each for each in told["plain"] if each[1] in ("all_reduce", "wait for rank 1")
         and "stream 0" in each[0]]
        for told in times
    )  # fmt: skip
    assert first[2:4] == second[2:4] and first[3] - first[2] == ring()
    assert waits[1] == "wait for rank 1" and waits[4] == "wait" and waits[3] == first[2]
    assert waits[3] - waits[2] == pytest.approx(0.25e9, rel=0.01)
    for told in times:
        after = next(each for each in told["plain"] if each[1] == "mul" and each[4] == "kernel")
        assert after[2] >= first[3]


def test_what_is_asynchronous_runs_on_a_stream_of_nccl_until_somebody_waits(times):
    for told in times:
        (reduce,) = on_nccl(told["beside"])
        product = next(e for e in told["beside"] if e[1] == "mm" and e[4] == "kernel")
        scaled = next(e for e in told["beside"] if e[1] == "mul" and e[4] == "kernel")
        assert product[0].endswith("stream 0")
        assert product[2] < reduce[3] and reduce[2] < product[3]  # beside each other
        assert scaled[2] >= max(reduce[3], product[3])
        assert told["waited"] < 1e-4  # the host goes on


def test_halves_of_an_all_reduce_take_half_its_time(times):
    for told in times:
        taken = {e[1]: e[3] - e[2] for e in told["scattered"] if e[4] == "kernel" and "_" in e[1]}
        assert taken["reduce_scatter"] == taken["all_gather"] == pytest.approx(ring() / 2, abs=1)


def test_a_barrier_blocks_the_host_of_who_comes_first(times):
    ends = [told["barrier"][-1] for told in times]
    waits = [[e for e in told["barrier"] if e[0] == "Python" and e[4] == "wait"] for told in times]
    assert max(e[3] - e[2] for e in waits[1]) > 0.09e9 > max(e[3] - e[2] for e in waits[0])
    assert times[0]["value"] == times[1]["value"] and ends


TRAIN = """
    from torch.nn.parallel import DistributedDataParallel
    torch.manual_seed(0)
    net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).to(here)
    net = DistributedDataParallel(net, bucket_cap_mb=2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    X = torch.ones(2048 + 2048 * rank, 512, device=here)  # rank 1 has twice the work
    def step():
        optimizer.zero_grad(); net(X).sum().backward(); optimizer.step()
    step(); step(); torch.cuda.synchronize(); dist.barrier()
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
    _, ranks = trained
    sent = [on_nccl(told["spans"]) for told in ranks]
    assert [each[2:4] for each in sent[0]] == [each[2:4] for each in sent[1]]
    assert len(sent[0]) >= 3 and all(each[1] == "all_reduce" for each in sent[0])
    for told, mine in zip(ranks, sent, strict=True):
        kernels = [e for e in told["spans"] if e[0].endswith("stream 0") and e[4] == "kernel"]
        assert kernels[-1][2] >= mine[-1][3]  # the optimizer's come after the last
    products = [e for e in kernels if e[1] == "mm"]  # of the slowest
    assert sent[1][0][2] < products[-1][3]  # the first bucket goes before backward ends
    waits = on_nccl(ranks[0]["spans"], "wait")
    assert waits and {each[1] for each in waits} == {"wait for rank 1"}
    assert not on_nccl(ranks[1]["spans"], "wait")  # the slowest waits for nobody


@pytest.mark.full
def test_a_run_is_the_same_every_time(trained, tmp_path):
    assert launch(tmp_path, TRAIN) == trained[1]


def test_every_rank_gets_the_timeline_of_all(trained):
    folder, ranks = trained
    assert ranks[0]["both"] == ranks[1]["both"] and ranks[0]["text"] == ranks[1]["text"]
    lanes = [line.rpartition(": ")[0] for line in ranks[0]["text"].splitlines()[1:]]
    assert lanes == [
        f"rank {rank}: {lane}"
        for rank in range(2)
        for lane in ("Python", f"cuda:{rank} stream 0", f"cuda:{rank} NCCL")
    ]
    assert ranks[0]["text"].startswith("timeline, modelled for a T4, 2 ranks: ≈ ")
    for rank, told in enumerate(ranks):
        mine = [each[1:] for each in told["both"] if each[0].startswith(f"rank {rank}: ")]
        assert sorted(mine) == sorted(each[1:] for each in told["spans"])
    assert 0 < ranks[0]["busy"] <= 1
    assert str(Timeline.load(folder / "ranks.json")) == ranks[0]["text"]


def test_load_refuses_what_save_has_not_written(tmp_path):
    path, words = tmp_path / "other.json", r"other.json: not a timeline that save\(\) has written"
    for text in ("{}", "[]", '{"otherData": 3}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            Timeline.load(path)


def test_gather_needs_ranks_and_modelled_times():
    with cudasim.simulate(clock="modelled"):
        torch.ones(2, device="cuda")
        with pytest.raises(RuntimeError, match=r"^gather\(\): there are no ranks; call"):
            cudasim.timeline().gather()


# Servers and links.

SERVERS = """
    os.environ["GROUP_RANK"] = str(rank)  # as two agents of torchrun set it
    x = torch.ones(2**22, device=here)
    torch.cuda.synchronize()
    with cudasim.timeline() as lanes:
        dist.all_reduce(x); torch.cuda.synchronize()
    before = spans(lanes)
    os.environ["CUDASIM_NETWORK"] = "string"
    try:
        dist.all_reduce(x)
    except ValueError as error:
        network = str(error)
    lanes.fill([cudasim.clock.clock.Span("Python", "mm", 0, 5, "operation")], "measured on a card")
    try:
        lanes.gather()
    except RuntimeError as error:
        gathered = str(error)
    tell(spans=before, network=network, gathered=gathered)
"""


@pytest.mark.parametrize("name", ["eth10", None])
def test_ranks_on_two_servers_use_the_network(tmp_path, name):
    variables = {} if name is None else {clocks.NETWORK: name}
    network = links("between")[name or clocks.USUAL]
    expected = all_reduce_seconds(SIZE, Cluster(2, 1, card_link(find_sheet("T4")), network))
    for told in launch(tmp_path, SERVERS, **variables):
        (found,) = (e for e in told["spans"] if e[1] == "all_reduce" and e[4] == "kernel")
        assert found[3] - found[2] == nanoseconds(expected) > ring()
        words = "CUDASIM_NETWORK='string': unknown; there are eth10, eth25"
        assert told["network"].startswith(words)
        assert told["gathered"].startswith("gather(): only modelled times of several processes")


MESSAGE = """
    x = torch.full((2**22,), float(rank), device=here)
    y = torch.empty_like(x)
    torch.cuda.synchronize(); dist.barrier()
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
    taken = nanoseconds(link.latency + SIZE / link.bandwidth)
    (sent,), (got,) = on_nccl(sender["spans"]), on_nccl(receiver["spans"])
    assert sent[3] - sent[2] == got[3] - got[2] == taken and sent[2] == got[2]
    (wait,) = on_nccl(receiver["spans"], "wait")
    assert wait[1] == "wait for rank 0" and wait[3] - wait[2] > 0.09e9
    added = next(e for e in receiver["spans"] if e[1] == "add_" and e[4] == "kernel")
    assert added[2] >= got[3]
    assert sender["value"] == [0, 2] and receiver["value"] == [1, 1]
    for told in (sender, receiver):
        ends = {each[1]: each[3] for each in on_nccl(told["both"])}
        added = next(e for e in told["both"] if e[1] == "add_" and e[4] == "kernel")
        assert set(ends) == {"send", "recv"} and added[2] >= ends["recv"]


# Without other processes.


def test_other_collectives_move_what_nccl_tests_says():
    link = links("inside")["nvlink3"]
    one, many = Cluster(1, 8, link), Cluster(8, 8, link)
    huge = 2**34
    through = huge / link.bandwidth
    for name, share in {
        "all_reduce": 14 / 8, "all_gather": 7 / 8, "reduce_scatter": 7 / 8, "all_to_all": 7 / 8,
        "broadcast": 1, "reduce": 1,
    }.items():  # fmt: skip
        assert collective_seconds(name, huge, many) == pytest.approx(share * through, rel=0.001)
        assert collective_seconds(name, huge, one) == 0


def test_a_group_of_one_rank_meets_nobody(tmp_path):
    before = torch.distributed.Work.wait, torch.autograd._engine_run_backward
    with cudasim.simulate(clock="modelled"):
        store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
        torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        try:
            x = torch.ones(2**20, device="cuda")
            with cudasim.timeline() as lanes:
                torch.distributed.all_reduce(x)
                torch.distributed.all_reduce(x, async_op=True).wait()
            reduces = [s for s in lanes.spans if s.name == "all_reduce" and s.kind == "kernel"]
            assert [s.lane for s in reduces] == ["cuda:0 stream 0", "cuda:0 NCCL"]
            assert all(isinstance(s, Span) for s in lanes.gather().spans)
        finally:
            torch.distributed.destroy_process_group()
    assert (torch.distributed.Work.wait, torch.autograd._engine_run_backward) == before
    assert not clocks.of_works
