"""Modelled time: what an operation, a copy and a wait cost, and what overlaps."""

import functools
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from programs import SCRIPTS, run
from torch import nn
from torch.nn import functional as F

import cudasim
from cudasim.clock.clock import QUEUE, Engine
from cudasim.clock.estimate import estimate
from cudasim.session import session

T4_FLOPS = 8.1e12  # a second, in float32, by the card's data sheet


def synchronize_both():
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)


@pytest.fixture
def clock():
    """The virtual clock of a simulation of two T4, for the length of a test."""
    with cudasim.simulate(gpus=2, card="T4", clock="modelled"):
        for device in ("cuda:0", "cuda:1"):
            torch.ones(1, device=device) + 1
        synchronize_both()
        yield session.clock


def took(clock, work):
    """Return the host's nanoseconds for `work`, done twice so that loading is not counted."""
    work()
    synchronize_both()
    before = clock.now
    work()
    return clock.now - before


def spans(clock, work, *kinds):
    """Return the spans of `work`, of some kinds or all."""
    mark = clock.mark()
    work()
    return [span for span in clock.since(mark) if span.kind in kinds or not kinds]


def lanes(clock, work):
    """Return the lane, the name and the kind of each span of `work`, done once before."""
    work()
    return [(span.lane, span.name, span.kind) for span in spans(clock, work)]


def test_a_call_returns_before_the_work_is_done(clock):
    small = torch.ones(256, 256, device="cuda")
    big = torch.ones(2048, 2048, device="cuda")
    call = took(clock, lambda: small @ small)
    assert call > took(clock, lambda: small + small) > 0  # a product is set up first
    assert took(clock, lambda: big @ big) == call

    def work_and_wait():
        big @ big
        torch.cuda.synchronize()

    done = took(clock, work_and_wait)
    assert done > 20 * call
    # No faster than the card can compute.
    assert done > 2 * 2048**3 / T4_FLOPS * 1e9


@pytest.mark.parametrize("graphed", [False, True])
def test_a_full_queue_makes_the_host_wait(clock, graphed):
    x = torch.zeros(1, device="cuda")

    def launch():
        x.add_(1)

    if graphed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
            x.add_(1)  # both take one place together
        launch = graph.replay

    def fill_the_queue():
        for _ in range(QUEUE - 2):
            launch()

    def overflow():
        launch()
        launch()

    took(clock, launch)
    torch.cuda._sleep(10**10)
    assert spans(clock, fill_the_queue, "wait") == []
    (wait,) = spans(clock, overflow, "wait")
    assert wait.name == "a full queue"


def test_a_gradient_that_goes_home_is_copied(clock):
    x = torch.ones(4, requires_grad=True)
    booked = lanes(clock, lambda: x.cuda().sum().backward())
    assert ("cuda:0 copies out", "copy", "copy") in booked


def test_an_engine_fills_its_gaps_and_does_nothing_twice():
    engine = Engine("compute")
    assert engine.book(100, 50) == (100, 150)
    assert engine.book(0, 20) == (0, 20)
    assert engine.book(10, 100) == (20, 170)  # in two parts, before and after the first
    assert engine.book(0, 1) == (170, 171)
    assert engine.book(200, 5) == (200, 205)
    assert engine.book(180, 3) == (180, 183)
    busy = sum(end - start for start, end in engine.busy)
    assert busy == 50 + 20 + 100 + 1 + 5 + 3


def test_lists_views_and_the_cpus_own_work_cost_time(clock):
    x = torch.ones(8, 8, device="cuda")
    one = took(clock, lambda: torch.stack([x]))
    many = took(clock, lambda: torch.stack([x] * 231))
    assert many > one

    view = took(clock, lambda: x.view(-1))
    assert took(clock, lambda: x[3]) == view
    assert 0 < view < took(clock, lambda: x + x)

    real = torch.ones(1000, 1000)
    nothing = torch.ones(1000, 1000, device="meta")
    without_numbers = took(clock, lambda: nothing @ nothing)
    assert took(clock, lambda: real @ real) > 1000 * without_numbers


def test_modules_autograd_and_optimizers_cost_time(clock):
    x = torch.ones(8, device="cuda", requires_grad=True)
    one = took(clock, lambda: nn.Identity()(x))
    nested = nn.Sequential(nn.Identity(), nn.Identity())
    assert took(clock, lambda: nested(x)) == 3 * one > 0

    y = x * 2
    gradient = torch.ones(8, device="cuda")

    def backward():
        torch.autograd.grad(y, x, gradient, retain_graph=True)

    taken = took(clock, backward)
    assert taken > took(clock, lambda: gradient * 2)
    (span,) = spans(clock, backward, "operation")
    assert span.name == "mul"
    assert span.end - span.start == taken  # with no gap before it

    def step_of(number):
        parameters = [torch.ones(8, device="cuda") for _ in range(number)]
        return took(clock, torch.optim.SGD(parameters, 0.1).step)

    # None has a gradient: looking at each costs time all the same.
    of_ten = step_of(11) - step_of(1)
    assert of_ten > 0
    assert step_of(21) - step_of(11) == of_ten


def test_inference_mode_takes_what_no_grad_takes(clock):
    layers = [
        nn.Conv2d(1, 4, 3),
        nn.ConvTranspose2d(4, 4, 2),
        nn.GroupNorm(2, 4),
        nn.Dropout(),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(4 * 7 * 7, 8),
        nn.LayerNorm(8),
    ]
    net = nn.Sequential(*layers).to("cuda:0")
    image = torch.ones(2, 1, 8, 8, device="cuda:0")
    label = torch.ones(2, dtype=torch.int64, device="cuda:0")

    def work():
        table = torch.ones(8, 8, device="cuda:0")
        scores = torch.einsum("ij,kj->ik", net(image), table)
        query = scores.view(1, 1, 2, 8)
        F.scaled_dot_product_attention(query, query, query)
        F.cross_entropy(scores, label).item()

    def booked():
        return took(clock, work), lanes(clock, work), estimate(work, "T4")

    with torch.no_grad():
        expected = booked()
    with torch.inference_mode():
        assert booked() == expected
        assert nn.Linear(2, 2).cuda().to("cuda:1").weight.is_cuda


def test_factories_work_where_they_make(clock):
    booked = lanes(clock, lambda: torch.zeros(1000, device="cuda:1"))
    assert ("cuda:1 stream 0", "zeros", "kernel") in booked
    booked = lanes(clock, lambda: torch.tensor([1.0, 2.0], device="cuda"))
    assert ("cuda:0 copies in", "copy", "copy") in booked
    assert booked[-1] == ("Python", "copy", "wait")


def test_copies_take_the_time_of_their_link(clock):
    size = 4 * 10**7
    pageable = torch.empty(size // 4)
    pinned = torch.empty(size // 4).pin_memory()
    on_gpu = pinned.cuda()

    # By the T4's sheet: 12.4 GB/s in, 5 GB/s out into memory that is not pinned.
    pinned_in = took(clock, pinned.cuda)
    assert pinned_in == pytest.approx(size / 12.4, rel=0.02)
    assert took(clock, on_gpu.cpu) == pytest.approx(size / 5, rel=0.02)
    assert took(clock, pageable.cuda) > 1.5 * pinned_in
    torch.cuda.cudart().cudaHostRegister(pageable.data_ptr(), size, 0)
    assert took(clock, pageable.cuda) == pinned_in

    # And 6 GB/s to a like card.
    *_, copy = spans(clock, lambda: on_gpu.to("cuda:1"), "copy")
    assert copy.lane == "cuda:1 copies in"
    assert copy.size == size
    assert copy.end - copy.start == pytest.approx(size / 6, rel=0.02)

    for dtype in (torch.float32, torch.float64, torch.uint8):
        x = torch.ones(2, dtype=dtype, device="cuda")
        (copy,) = spans(clock, x[1].item, "copy")
        assert copy.size == dtype.itemsize  # `item` reads one element


def test_a_copy_of_another_type_is_converted_first(clock):
    host = torch.ones(1000, 1000)
    on_gpu = host.cuda()
    booked = lanes(clock, lambda: host.to("cuda", torch.float16))
    assert ("Python", "convert", "operation") in booked
    booked = lanes(clock, lambda: on_gpu.to("cpu", torch.float64))
    assert ("cuda:0 stream 0", "convert", "kernel") in booked
    booked = lanes(clock, lambda: host.cuda().t().cpu())
    assert "convert" not in [name for _, name, _ in booked]


def test_a_peer_copy_occupies_the_streams_of_both_cards(clock):
    x = torch.ones(1000, device="cuda:0")
    x.to("cuda:1")
    with torch.cuda.device(1):
        torch.cuda._sleep(10**7)
    busy = clock.cards[1].end
    *_, copy = spans(clock, lambda: x.to("cuda:1"), "copy")
    assert copy.start >= busy
    for card in clock.cards:
        assert card.stream(0).end == copy.end


def test_the_first_kernel_begins_before_the_last_is_launched(clock):
    x = torch.ones(64, device="cuda")
    x.sort()
    torch.cuda.synchronize()
    call, kernels = spans(clock, x.sort)
    assert kernels.start < call.end


@pytest.mark.parametrize(("n", "in_turn"), [(2048, True), (4, False)])
def test_kernels_that_fill_the_card_take_turns(clock, n, in_turn):
    side = torch.cuda.Stream()
    x = torch.ones(n, n, device="cuda")

    def work():
        torch.cuda._sleep(10**6)
        side.wait_stream(torch.cuda.current_stream())
        x @ x
        with torch.cuda.stream(side):
            x @ x

    work()
    _, first, second = spans(clock, work, "kernel")
    assert (second.start >= first.end) is in_turn


# Threads


def test_a_thread_begins_at_its_starters_time(clock):
    begun = []

    def work():
        begun.append(clock.now)
        clock.sleep(1)

    clock.sleep(5)
    start, mark = clock.now, clock.mark()
    thread = threading.Thread(target=work, name="loader")
    thread.start()
    assert clock.now == start  # its own time goes on by itself
    thread.join()
    assert begun == [start]
    assert clock.now == start + 10**9
    assert [span.lane for span in clock.since(mark)] == ["Python, loader"]
    thread.join()
    assert clock.now == start + 10**9


def test_the_result_of_a_pool_comes_after_the_work(clock):
    def fail():
        clock.sleep(1)
        raise ZeroDivisionError

    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()
        clock.sleep(3)
        start = clock.now
        future = pool.submit(clock.sleep, 1)
        assert clock.now == start
        future.result()
        assert clock.now == start + 10**9
        with pytest.raises(ZeroDivisionError):
            pool.submit(fail).result()
        assert clock.now == start + 2 * 10**9


def test_data_parallel_and_workers_do_not_hang(clock):
    net = nn.DataParallel(nn.Linear(4, 2).cuda())
    before = clock.now
    net(torch.ones(8, 4, device="cuda")).sum().backward()
    assert clock.now > before
    used = {span.lane for span in clock.since(0)}
    assert {"cuda:1 copies in", "cuda:1 stream 0"} <= used

    data = torch.utils.data.TensorDataset(torch.ones(8, 4))
    loader = torch.utils.data.DataLoader(data, 4, num_workers=1, pin_memory=True)
    for (batch,) in loader:
        assert batch.is_pinned()
        move = functools.partial(batch.to, "cuda", non_blocking=True)
        assert spans(clock, move, "wait") == []


@pytest.mark.full
def test_the_same_nanoseconds_with_one_thread_and_with_two(tmp_path):
    script = SCRIPTS / "mixed_work.py"
    one = run(script, "1", cwd=tmp_path)
    two = run(script, "2", cwd=tmp_path)
    assert (one.returncode, one.stderr) == (0, "")
    assert one.stdout == two.stdout
    assert one.stdout.count("\n") == 3


def capture(work):
    """Capture `work` in a graph, and return what replays it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def test_a_graph_is_launched_once_and_its_kernels_run_on(clock):
    x = torch.zeros(1000, device="cuda")

    def chain():
        result = x
        for _ in range(40):
            result = result + 1
        return result

    one_by_one = took(clock, chain)
    torch.cuda.synchronize()
    mark = clock.mark()
    replay = capture(chain)
    lanes_of_capture = {span.lane for span in clock.since(mark)}
    assert lanes_of_capture == {"Python"}  # the card has done nothing

    assert 40 * took(clock, replay) == one_by_one
    torch.cuda.synchronize()
    kernels = spans(clock, replay, "kernel")
    assert len(kernels) == 40
    assert kernels[0].start == clock.now
    for kernel, following in itertools.pairwise(kernels):
        assert kernel.end == following.start
    assert took(clock, chain) == one_by_one  # the capture has ended


def test_a_graph_copies_when_it_is_replayed(clock):
    host = torch.ones(1000).pin_memory()
    on_gpu = torch.zeros(1000, device="cuda")
    mark = clock.mark()
    replay = capture(lambda: on_gpu.copy_(host, non_blocking=True))
    assert "copy" not in [span.kind for span in clock.since(mark)]
    assert [span.kind for span in spans(clock, replay)] == ["operation", "copy"]
    assert on_gpu.tolist() == [1] * 1000
