"""Modelled time: what an operation, a copy and a wait cost, and what overlaps."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from programs import run, write
from torch import nn
from torch.nn import functional as F

import cudasim
from cudasim.clock.clock import QUEUE, Engine
from cudasim.clock.clock import nanoseconds as ns
from cudasim.clock.estimate import estimate
from cudasim.session import session
from cudasim.timing.formulas import copy_seconds
from cudasim.timing.sheets import find_sheet

T4 = find_sheet("T4")


@pytest.fixture
def clock():
    """The virtual clock of a simulation of two T4, for the length of a test."""
    with cudasim.simulate(gpus=2, card="T4", clock="modelled"):
        torch.ones(1, device="cuda:0") + 1, torch.ones(1, device="cuda:1") + 1
        torch.cuda.synchronize(0), torch.cuda.synchronize(1)
        yield session.clock


def took(clock, work):
    """Nanoseconds of the host for `work`, done twice: what is loaded once is not counted."""
    work()
    torch.cuda.synchronize(0), torch.cuda.synchronize(1)
    before = clock.now
    work()
    return clock.now - before


def spans(clock, work, *kinds):
    """The spans of `work`, of some kinds or all."""
    mark = clock.mark()
    work()
    return [span for span in clock.since(mark) if span.kind in kinds or not kinds]


def lanes(clock, work):
    work()
    return [(span.lane, span.name, span.kind) for span in spans(clock, work)]


def test_a_call_returns_before_the_work_is_done(clock):
    a, big = torch.ones(256, 256, device="cuda"), torch.ones(2048, 2048, device="cuda")
    asked = clock.operation + clock.launch
    assert took(clock, lambda: a + a) == asked
    asked += ns(clock.host.setup["matmul"])
    assert took(clock, lambda: a @ a) == took(clock, lambda: big @ big) == asked
    done = took(clock, lambda: (big @ big, torch.cuda.synchronize()))
    assert done > 20 * asked
    assert done > ns(
        2 * 2048**3 / T4.peak["float32"]
    )  # no faster than the card can compute


@pytest.mark.parametrize("graphed", [False, True])
def test_a_full_queue_makes_the_host_wait(clock, graphed):
    x, graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1), x.add_(1)  # which take one place together
    ask = graph.replay if graphed else lambda: x.add_(1)
    took(clock, ask)
    torch.cuda._sleep(10**10)
    assert not spans(clock, lambda: [ask() for _ in range(QUEUE - 2)], "wait")
    (wait,) = spans(clock, lambda: (ask(), ask()), "wait")
    assert wait.name == "a full queue"


def test_a_gradient_that_goes_home_is_copied(clock):
    x = torch.ones(4, requires_grad=True)
    found = lanes(clock, lambda: x.cuda().sum().backward())
    assert ("cuda:0 copies out", "copy", "copy") in found


def test_an_engine_fills_its_gaps_and_does_nothing_twice():
    engine, asked = (
        Engine("compute"),
        [(100, 50), (0, 20), (10, 100), (0, 1), (200, 5), (180, 3)],
    )
    done = [engine.book(start, duration) for start, duration in asked]
    assert done == [(100, 150), (0, 20), (20, 170), (170, 171), (200, 205), (180, 183)]
    assert sum(end - start for start, end in engine.busy) == sum(
        length for _, length in asked
    )


def test_lists_views_and_the_cpus_own_work_cost_the_host(clock):
    x, view = torch.ones(8, 8, device="cuda"), ns(clock.host.view)
    one, many = (
        took(clock, lambda: torch.stack([x])),
        took(clock, lambda: torch.stack([x] * 231)),
    )
    assert many - one == ns(231 * clock.host.operand) - ns(clock.host.operand)
    assert (
        took(clock, lambda: x.view(-1))
        == took(clock, lambda: x[3])
        == view
        < clock.operation
    )
    real, nothing = torch.ones(1000, 1000), torch.ones(1000, 1000, device="meta")
    assert took(clock, lambda: real @ real) > 1000 * took(
        clock, lambda: nothing @ nothing
    )


def test_modules_autograd_and_optimizers_cost_the_host(clock):
    host, call = clock.host, clock.operation + clock.launch
    x = torch.ones(8, device="cuda", requires_grad=True)
    same = nn.Sequential(nn.Identity(), nn.Identity())
    assert took(clock, lambda: same(x)) == 3 * ns(host.module)
    y, gradient = x * 2, torch.ones(8, device="cuda")
    run = (
        ns(host.backward + 2 * host.node) + call - clock.python
    )  # a product and a leaf
    backward = lambda: torch.autograd.grad(y, x, gradient, retain_graph=True)  # noqa: E731
    assert took(clock, backward) == run
    (span,) = spans(clock, backward, "operation")
    assert (span.name, span.end - span.start) == (
        "mul",
        run,
    )  # one span, and no gap before it
    named = 2 * ns(host.view)  # a step has a name for the profiler
    for n in (1, 11):
        step = torch.optim.SGD(
            [torch.ones(8, device="cuda") for _ in range(n)], 0.1
        ).step
        assert (
            took(clock, step) == ns(host.step + n * host.parameter) + named
        )  # no gradients


def test_inference_mode_takes_what_no_grad_takes(clock):
    layers = [
        nn.Conv2d(1, 4, 3),
        nn.ConvTranspose2d(4, 4, 2),
        nn.GroupNorm(2, 4),
        nn.Dropout(),
    ]
    layers += [
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4 * 7 * 7, 8),
        nn.LayerNorm(8),
    ]
    x, y = torch.ones(2, 1, 8, 8), torch.ones(2, dtype=torch.int64)

    def booked(device):
        net, image, label = (
            nn.Sequential(*layers).to(device),
            x.to(device),
            y.to(device),
        )

        def work():
            scores = torch.einsum(
                "ij,kj->ik", net(image), torch.ones(8, 8, device=device)
            )
            F.scaled_dot_product_attention(*[scores.view(1, 1, 2, 8)] * 3)
            F.cross_entropy(scores, label).item()

        return took(clock, work), lanes(clock, work), estimate(work, "T4")

    with torch.no_grad():
        expected = booked("cuda:0")
    with torch.inference_mode():
        assert booked("cuda:0") == expected
        assert nn.Linear(2, 2).cuda().to("cuda:1").weight.is_cuda


def test_factories_work_where_they_make(clock):
    found = lanes(clock, lambda: torch.zeros(1000, device="cuda:1"))
    assert ("cuda:1 stream 0", "zeros", "kernel") in found
    found = lanes(clock, lambda: torch.tensor([1.0, 2.0], device="cuda"))
    assert ("cuda:0 copies in", "copy", "copy") in found
    assert found[-1] == ("Python", "copy", "wait")


def test_copies_take_the_time_of_their_link(clock):
    size = 4 * 10**7
    pageable, pinned = torch.empty(size // 4), torch.empty(size // 4).pin_memory()
    there, base = pinned.cuda(), clock.operation + clock.launch + clock.wait
    for copy, kind, way in (
        (pageable.cuda, "pageable", "in"),
        (pinned.cuda, "pinned", "in"),
        (there.cpu, "pageable", "out"),
    ):
        assert took(clock, copy) == base + ns(copy_seconds(size, T4, kind, way))
    *_, copy = spans(clock, lambda: there.to("cuda:1"), "copy")
    assert copy.lane == "cuda:1 copies in" and copy.size == size
    assert copy.end - copy.start == ns(copy_seconds(size, T4, "peer"))
    for dtype in torch.float32, torch.float64, torch.uint8:  # `item` reads one element
        x = torch.ones(2, dtype=dtype, device="cuda")
        (copy,) = spans(clock, x[1].item, "copy")
        assert copy.size == dtype.itemsize


def test_a_copy_of_another_type_is_converted_first(clock):
    x, y = torch.ones(1000, 1000), torch.ones(1000, 1000, device="cuda")
    found = lanes(clock, lambda: x.to("cuda", torch.float16))
    assert ("Python", "convert", "operation") in found
    assert "convert" not in str(lanes(clock, lambda: x.cuda().t().cpu()))
    found = lanes(clock, lambda: y.to("cpu", torch.float64))
    assert ("cuda:0 stream 0", "convert", "kernel") in found


def test_a_peer_copy_comes_after_both_streams_and_before_what_follows(clock):
    x = torch.ones(1000, device="cuda:0")
    x.to("cuda:1")
    with torch.cuda.device(1):
        torch.cuda._sleep(10**7)
    busy = clock.cards[1].end
    *_, copy = spans(clock, lambda: x.to("cuda:1"), "copy")
    assert copy.start >= busy
    assert clock.cards[1].stream(0).end == clock.cards[0].stream(0).end == copy.end


def test_the_first_of_several_kernels_begins_before_the_last_is_launched(clock):
    x = torch.ones(64, device="cuda")
    x.sort(), torch.cuda.synchronize()
    call, kernels = spans(clock, x.sort)  # a pass for each byte, and two
    assert call.end - kernels.start == min(5 * clock.launch, kernels.length)


@pytest.mark.parametrize(("n", "in_turn"), [(2048, True), (4, False)])
def test_kernels_that_fill_the_card_take_turns_and_small_ones_overlap(
    clock, n, in_turn
):
    side, x = torch.cuda.Stream(), torch.ones(n, n, device="cuda")

    def work():
        torch.cuda._sleep(10**6)
        side.wait_stream(torch.cuda.current_stream())
        x @ x
        with torch.cuda.stream(side):
            x @ x

    work()
    _, one, other = spans(clock, work, "kernel")
    assert (other.start >= one.end) is in_turn


# Threads


def test_a_thread_begins_at_its_starters_time_and_who_joins_it_comes_after(clock):
    seen = []

    def work():
        seen.append(clock.now)
        clock.sleep(1)

    clock.sleep(5)
    start = clock.now
    thread, mark = threading.Thread(target=work, name="loader"), clock.mark()
    thread.start()
    assert clock.now == start  # its own time goes on by itself
    thread.join()
    assert seen == [start] and clock.now == start + 10**9
    assert [span.lane for span in clock.since(mark)] == ["Python, loader"]
    thread.join()
    assert clock.now == start + 10**9


def test_the_result_of_a_pool_comes_after_the_work(clock):
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        clock.sleep(3)
        start = clock.now
        future = pool.submit(clock.sleep, 1)
        assert clock.now == start
        future.result()
        assert clock.now == start + 10**9
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: clock.sleep(1) or 1 / 0).result()
        assert clock.now == start + 2 * 10**9


def test_data_parallel_and_workers_do_not_hang(clock):
    net = torch.nn.DataParallel(torch.nn.Linear(4, 2).cuda())
    before = clock.now
    net(torch.ones(8, 4, device="cuda")).sum().backward()
    assert clock.now > before
    assert {span.lane for span in clock.since(0)} >= {
        "cuda:1 copies in",
        "cuda:1 stream 0",
    }
    data = torch.utils.data.TensorDataset(torch.ones(8, 4))
    loader = torch.utils.data.DataLoader(data, 4, num_workers=1, pin_memory=True)
    for (batch,) in loader:
        assert batch.is_pinned()
        before = clock.now
        batch.to("cuda", non_blocking=True)
        assert clock.now - before == clock.operation + clock.launch


MIXED = """
    import sys, time, timeit
    import torch
    from torch import nn
    import cudasim
    torch.set_num_threads(int(sys.argv[1]))
    cudasim.enable(gpus=2, card="T4", clock="modelled")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(6):
        X, y = torch.randn(256, 64).pin_memory(), torch.arange(256, device="cuda") % 10
        loss = nn.functional.cross_entropy(net(X.cuda(non_blocking=True)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.cuda.stream(torch.cuda.Stream()):
        big = torch.randn(512, 512, device="cuda")
        (big @ big).to("cuda:1")
    print(time.perf_counter_ns(), timeit.timeit("x + 1", globals={"x": big}, number=100))
    nn.DataParallel(net)(torch.randn(64, 64, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    print(time.time_ns(), len(cudasim.timeline().spans), cudasim.without_rule())
"""


@pytest.mark.full
def test_the_same_nanoseconds_with_one_thread_and_with_two(tmp_path):
    script = write(tmp_path / "mixed.py", MIXED)
    one, two = (run(script, threads, cwd=tmp_path) for threads in "12")
    assert (one.returncode, one.stderr) == (0, "")
    assert one.stdout == two.stdout and one.stdout.count("\n") == 3


def test_a_graph_is_launched_once_and_its_kernels_follow_each_other(clock):
    x = torch.zeros(1000, device="cuda")

    def chain():
        result = x
        for _ in range(40):
            result = result + 1
        return result

    def capture(work):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph.replay

    assert took(clock, chain) == 40 * (clock.operation + clock.launch)
    torch.cuda.synchronize()
    mark = clock.mark()
    replay = capture(chain)
    assert {span.lane for span in clock.since(mark)} == {
        "Python"
    }  # the card has done nothing
    assert took(clock, replay) == clock.operation + clock.launch
    torch.cuda.synchronize()
    kernels = spans(clock, replay, "kernel")
    assert len(kernels) == 40 and kernels[0].start == clock.now
    assert all(one.end == two.start for one, two in itertools.pairwise(kernels))
    assert took(clock, chain) == 40 * (
        clock.operation + clock.launch
    )  # and so it is after it
    host, there = torch.ones(1000).pin_memory(), torch.zeros(1000, device="cuda")
    mark = clock.mark()
    replay = capture(lambda: there.copy_(host, non_blocking=True))
    assert all(span.kind != "copy" for span in clock.since(mark))
    assert [span.kind for span in spans(clock, replay)] == ["operation", "copy"]
    assert there.tolist() == [1] * 1000
