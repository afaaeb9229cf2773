"""What a program reads of the time while a virtual clock runs, and who keeps the machine's."""

import pickle
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from programs import run, write

import cudasim
from cudasim.clock.clock import EPOCH
from cudasim.session import session


def programs():
    return (
        time.perf_counter,
        time.monotonic,
        time.time,
        time.sleep,
        timeit.default_timer,
    )


PROGRAMS = programs()


@pytest.fixture
def clock():
    """The virtual clock of a simulation, for the length of a test."""
    with cudasim.simulate(clock="modelled"):
        yield session.clock


def test_readings_are_modelled_and_cost_a_little(clock):
    for read, begin in (
        (time.perf_counter, 0),
        (time.monotonic, 0),
        (time.time, EPOCH),
        (timeit.default_timer, 0),
    ):
        before = clock.now
        assert read() == (begin + clock.now) / 1e9
        assert before < clock.now < before + 1000
    assert time.perf_counter_ns() == clock.now
    assert time.monotonic_ns() == clock.now
    assert time.time_ns() == EPOCH + clock.now
    assert time.strftime("%Y-%m-%d", time.gmtime(time.time())) == "2026-01-01"


def timeit_defaults():
    return timeit.Timer.__init__.__defaults__, timeit.timeit.__defaults__


def test_without_a_clock_time_is_the_machines(two_gpus):
    assert programs() == PROGRAMS
    cudasim.disable()
    defaults = timeit_defaults()
    with cudasim.simulate(clock="modelled"):
        kept = time.perf_counter
        assert set(programs()).isdisjoint(PROGRAMS)
        assert timeit_defaults()[0] != defaults[0]
    assert programs() == PROGRAMS
    assert timeit_defaults() == defaults
    assert kept() == pytest.approx(time.perf_counter(), abs=60)  # the machine's again


def test_sleep_passes_at_once(clock):
    before = clock.now
    time.sleep(10**6)  # days, which the test has not
    time.sleep(0)
    time.sleep(0.5)
    assert clock.since(0)[-1].kind == "sleep"
    for value in (-1, float("nan"), 1e300, "1"):
        with pytest.raises((ValueError, OverflowError, TypeError)):
            time.sleep(value)
    assert clock.now == before + 10**15 + 5 * 10**8

    # `sleep` itself in a thread, with no function of the program.
    with ThreadPoolExecutor() as pool:
        pool.submit(time.sleep, 1).result()
    assert clock.now == before + 10**15 + 15 * 10**8


@pytest.mark.parametrize("name", ["sleep", "time", "perf_counter", "monotonic_ns"])
def test_functions_of_time_are_pickled_by_name(clock, name):
    function = getattr(time, name)
    assert pickle.loads(pickle.dumps(function)) is function  # for another process


def test_waiting_for_a_time_or_a_stream_ends(clock):
    end = time.perf_counter() + 0.01
    turns = 0
    while time.perf_counter() < end:
        turns += 1
    assert 0 < turns <= 0.01 * 1e9 / clock.reading

    torch.cuda._sleep(10**6)
    torch.cuda._sleep(-(10**6))  # goes on at once
    for span in clock.since(0):
        assert span.end >= span.start

    event = torch.cuda.Event()
    event.record()
    assert not event.query()
    while not event.query():
        pass
    assert torch.cuda.current_stream().query()


def test_timeit_ends_and_says_the_same_again(clock):
    thousand = timeit.timeit("1 + 1", number=1000)
    two_thousand = timeit.timeit("1 + 1", number=2000)
    assert two_thousand == pytest.approx(2 * thousand, rel=0.01)
    number, seconds = timeit.Timer("1 + 1").autorange()
    assert 0.2 <= seconds < 1
    assert seconds / number == pytest.approx(thousand / 1000, rel=0.01)

    x = torch.ones(8, device="cuda")
    first, *others = timeit.repeat("x + x", globals={"x": x}, number=50)
    assert others == [pytest.approx(others[0])] * 4
    assert others[0] > 50 * thousand / 1000
    assert first > others[0]  # the kernel was loaded


def test_the_benchmark_of_torch_ends_and_waits_for_the_card(clock):
    from torch.utils.benchmark import Timer

    x = torch.ones(1024, 1024, device="cuda")
    timer = Timer("x @ x", globals={"x": x})
    measurement = timer.blocked_autorange(min_run_time=0.01)
    *_, kernel = [span for span in clock.since(0) if span.kind == "kernel"]
    seconds = (kernel.end - kernel.start) / 1e9
    assert seconds <= measurement.median < 1.5 * seconds
    assert timer.timeit(20).median == pytest.approx(timer.timeit(20).median)


INSTALLED = "/opt/env/lib/python3.11/site-packages"
OWN = [
    "<stdin>",
    "/home/someone/train.py",
    timeit.__file__,
    f"{INSTALLED}/d2l/torch.py",
    f"{INSTALLED}/IPython/core/magics/execution.py",
]
OTHERS = [
    threading.__file__,
    torch.__file__,
    "<frozen importlib._bootstrap>",
    f"{INSTALLED}/ipykernel/kernelbase.py",
    "/usr/lib/dist-packages/tornado/ioloop.py",
]


@pytest.mark.parametrize("order", [("square", "product"), ("product", "square")])
def test_a_tensor_that_is_an_operand_twice_is_fetched_once(clock, order):
    x, y = torch.ones(2, 2**24, device="cuda")
    out = x * 1.0  # warm-up
    factors = {"square": x, "product": y}
    seconds = {}
    for name in order:  # what one of them costs is not taken for the other
        torch.cuda.synchronize()
        start = time.perf_counter()
        torch.mul(x, factors[name], out=out)
        torch.cuda.synchronize()
        seconds[name] = time.perf_counter() - start
    # Two tensors of 64 MiB pass through the memory, or three.
    assert seconds["square"] / seconds["product"] == pytest.approx(2 / 3, rel=0.05)


@pytest.mark.parametrize("filename", OWN + OTHERS)
def test_whose_readings_are_modelled(clock, filename):
    before = clock.now
    exec(compile("import time; time.time()", filename, "exec"), {})
    assert (clock.now > before) is (filename in OWN)


IPYTHON = """
    import sys
    from IPython.testing.globalipapp import start_ipython
    import cudasim
    if sys.argv[1] == "before":
        cudasim.enable(clock="modelled")
    shell = start_ipython()
    if sys.argv[1] == "after":
        cudasim.enable(clock="modelled")
    shell.run_cell("import torch; x = torch.ones(64, 64, device='cuda'); y = x @ x")
    shell.run_cell("%timeit -r 3 -n 100 x @ x")
    shell.run_cell("%timeit 1 + 1")
    shell.run_cell("%time y = x @ x; torch.cuda.synchronize()")
    shell.run_cell_magic("time", "", "torch.cuda.synchronize()")
"""


def test_the_magics_of_ipython_are_modelled(tmp_path):
    pytest.importorskip("IPython", reason="IPython is not installed here")
    script = write(tmp_path / "magics.py", IPYTHON)
    before = run(script, "before", cwd=tmp_path, IPYTHONDIR=tmp_path)
    after = run(script, "after", cwd=tmp_path, IPYTHONDIR=tmp_path)
    assert before.stdout == after.stdout, before.stderr
    lines = before.stdout.splitlines()
    assert lines[1].endswith("(mean ± std. dev. of 3 runs, 100 loops each)")
    assert "per loop" in lines[2]
    assert any(line.startswith("Wall time: ") for line in lines)


CHILDREN = """
    import multiprocessing, sys, time
    import torch, cudasim

    def work(queue):
        torch.ones(2, device="cuda") + 1
        queue.put((torch.cuda.get_device_name(), time.perf_counter()))

    if __name__ == "__main__":
        cudasim.enable(clock="modelled")
        time.sleep(100)
        context = multiprocessing.get_context(sys.argv[1])
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        name, when = queue.get()
        process.join()
        print(name, 0 < when < 10, process.exitcode, time.perf_counter() > 100)
"""


@pytest.mark.parametrize(
    "method", ["fork", pytest.param("spawn", marks=pytest.mark.full)]
)
def test_processes_begin_with_a_clock_of_their_own(tmp_path, method):
    script = write(tmp_path / "children.py", CHILDREN)
    got = run(script, method, cwd=tmp_path)
    line = "Simulated GPU (T4, modelled time) True 0 True"
    assert got.stdout.splitlines()[1:] == [line], got.stderr


EVENT_LOOP = """
    import asyncio, logging, queue, threading, time
    import cudasim
    cudasim.enable(clock="modelled")

    async def main():
        got = await asyncio.wait_for(asyncio.to_thread(lambda: time.sleep(1000)), 60)
        await asyncio.sleep(0.01)
        return got

    print(asyncio.run(main()), logging.LogRecord("", 0, "", 0, "", (), None).created > 1.77e9)
    box = queue.Queue()
    threading.Timer(0.01, box.put, ["in time"]).start()
    print(box.get(timeout=20))
"""


def test_a_program_with_an_event_loop_does_not_hang(tmp_path):
    """Kernels of notebooks are such programs. What they wait for takes the machine's time."""
    script = write(tmp_path / "loop.py", EVENT_LOOP)
    got = run(script, cwd=tmp_path)
    assert got.stdout.splitlines()[1:] == ["None True", "in time"], got.stderr
