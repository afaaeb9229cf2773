"""Races: programs in which two accesses to one memory are in no order, and their mended twins."""

import pickle
from contextlib import nullcontext

import pytest
import torch
from calls import in_thread
from programs import run, write

import cudasim
from cudasim.dispatch.races import ACCESSES, MOST_USES, DataRace


def two_streams(waits):
    x, side = torch.ones(4, device="cuda"), torch.cuda.Stream()
    if waits:
        side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return x[1:] + 1


def result_of_a_stream(waits):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = torch.ones(4, device="cuda")
    done = side.record_event()
    if waits:
        done.wait()
    return x + 1


def copy_home(waits):
    copy = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
    if waits:
        torch.cuda.synchronize()
    return copy.sum()


def reused_buffer(waits):
    buffer = torch.ones(4).pin_memory()
    buffer.to("cuda", non_blocking=True)
    if waits:
        torch.cuda.current_stream().synchronize()
    buffer.fill_(2)


def buffer_before_a_small_copy(waits):
    buffer = torch.ones(4).pin_memory()
    buffer.to("cuda", non_blocking=True)
    # Pageable, and so small that CUDA does not wait for it.
    torch.ones(4).to("cuda", non_blocking=True)
    if waits:
        torch.cuda.synchronize()
    buffer.fill_(2)


def registered_buffer(waits):
    buffer = torch.ones(100_000)
    torch.cuda.cudart().cudaHostRegister(buffer.data_ptr(), buffer.nbytes, 0)
    buffer.to("cuda", non_blocking=True)
    if waits:
        torch.cuda.synchronize()
    buffer.fill_(2)


def target_of_a_copy(waits):
    target = torch.zeros(4, device="cuda:1")
    side = torch.cuda.Stream("cuda:1")
    side.wait_stream(torch.cuda.current_stream(1))
    with torch.cuda.stream(side):
        target.add_(1)
    if waits:
        torch.cuda.synchronize("cuda:1")
    target.copy_(torch.ones(4, device="cuda:0"))


def memory_handed_out(waits):
    copies, computing = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(2):
        with torch.cuda.stream(copies):
            x = torch.ones(1000, device="cuda")
        computing.wait_stream(copies)
        if waits:
            x.record_stream(computing)
        x * 2
        del x


def whole_after_its_parts(waits):
    x, side = torch.zeros(2, 100, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x[0].fill_(1)
    x[1].fill_(2)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    x.sum()


def part_after_many_parts(waits):
    """They are so many that they are not told apart any more."""
    x, side = torch.zeros(2 * MOST_USES, 1, device="cuda"), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for row in x:
            row.fill_(1)
    if waits:
        torch.cuda.current_stream().wait_stream(side)
    x[0] + 1


def memory_handed_out_in_two_parts(waits):
    megabytes, side = 2**20, torch.cuda.Stream()
    x = torch.zeros(12 * megabytes, dtype=torch.uint8, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x[7 * megabytes :].sum()
    if waits:
        x.record_stream(side)
    del x
    first_half = torch.zeros(6 * megabytes, dtype=torch.uint8, device="cuda")
    return torch.zeros_like(first_half)


WRITTEN_HERE = "which wrote it on cuda:0 stream"
RACES = {
    two_streams: [
        "add reads a tensor of shape (3,)",
        f"{WRITTEN_HERE} 0",
        "wait_stream()",
    ],
    result_of_a_stream: ["on cuda:0 stream 0, and nothing orders it", WRITTEN_HERE],
    copy_home: [
        "sum reads",
        "on the host, and",
        "_to_copy, which wrote",
        "synchronize()",
    ],
    reused_buffer: ["fill_ writes", "on the host, and", "_to_copy, which read it"],
    buffer_before_a_small_copy: ["fill_ writes", "_to_copy, which read it"],
    registered_buffer: ["fill_ writes", "_to_copy, which read it"],
    target_of_a_copy: ["copy_ writes", "add_, which wrote it on cuda:1 stream"],
    memory_handed_out: [
        "which read what was there before on cuda:0 stream 0",
        "record_stream",
    ],
    whole_after_its_parts: ["sum reads a tensor of shape (2, 100)", WRITTEN_HERE],
    part_after_many_parts: ["add reads a tensor of shape (1,)", WRITTEN_HERE],
    memory_handed_out_in_two_parts: [
        "zeros_like writes a tensor",
        "which read what was there before",
    ],
}


@pytest.mark.parametrize("clock", [None, "modelled"])
@pytest.mark.parametrize("program", RACES)
def test_a_race_is_an_error_that_names_both_places(program, clock):
    with cudasim.simulate(2, clock=clock):
        with cudasim.races(), pytest.raises(DataRace) as error:
            program(False)
        with cudasim.races():
            program(True)
        program(False)  # and from here on nobody looks
    message = str(error.value)
    assert "data race: " in message
    assert message.count(f'File "{__file__}", line ') >= 2
    for words in RACES[program]:
        assert words in message


PAIRS = {
    "rows": lambda x: (x[0], x[1]),
    "row and whole": lambda x: (x[0], x),
    "chunks": lambda x: x.flatten().chunk(2),
    "slices that meet": lambda x: (x.flatten()[:31], x.flatten()[31:]),
    "slices that share one": lambda x: (x.flatten()[:31], x.flatten()[30:]),
    "columns": lambda x: (x[..., :2], x[..., 2:]),
    "columns that share one": lambda x: (x[..., :3], x[..., 2:]),
    "columns of another shape": lambda x: (x.view(-1, 5)[1:, 0], x[:, 1, 1:3]),
    "column and row": lambda x: (x[:, 1], x[1]),
    "even and odd": lambda x: (x.flatten()[::2], x.flatten()[1::2]),
    "a quarter of the odd": lambda x: (x.flatten()[::2], x.flatten()[3::8]),
    "blocks": lambda x: (x[:, :2, :2], x[:, :2, 3:]),
    "transposed blocks": lambda x: (x[:2].transpose(0, 2), x[1:, 2:]),
    "transposed": lambda x: (x[0].t(), x[1].t()),
    "transposed and base": lambda x: (x.transpose(0, 2), x),
    "bytes": lambda x: (
        x[0].view(torch.int16)[:, ::2],
        x[0].view(torch.int16)[:, 1::2],
    ),
    "empty": lambda x: (x[:0], x),
    "windows": lambda x: (x.flatten()[:9].unfold(0, 3, 1), x.flatten()[4]),
    "expanded": lambda x: (x[0, 0, :1].expand(3), x[0, 0, 1:]),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_parts_of_a_memory_race_if_they_share_bytes(pair, two_gpus):
    # No two halves of these numbers are the same, so equal numbers are the same bytes.
    numbers = torch.arange(120, dtype=torch.int16).view(torch.int32).view(3, 4, 5)
    read, written = (set(part.flatten().tolist()) for part in PAIRS[pair](numbers))

    x, side = torch.zeros(3, 4, 5, dtype=torch.int32).cuda(), torch.cuda.Stream()
    part, other = PAIRS[pair](x)

    def read_part():
        with torch.cuda.stream(side):
            part.clone()

    def write_other():
        other.fill_(1)

    for first, second in ((read_part, write_other), (write_other, read_part)):
        torch.cuda.synchronize()
        expected = pytest.raises(DataRace) if read & written else nullcontext()
        with cudasim.races(), expected:
            first()
            second()


def test_a_ring_of_pinned_slots_has_no_race():
    with cudasim.simulate(races="raise"):
        ring, copies = torch.zeros(3, 100).pin_memory(), torch.cuda.Stream()
        targets = torch.zeros(3, 100, device="cuda")
        copies.wait_stream(torch.cuda.current_stream())
        copied = [torch.cuda.Event() for _ in ring]
        for step in range(9):
            slot = step % 3
            copied[slot].synchronize()
            ring[slot].fill_(step)
            with torch.cuda.stream(copies):
                targets[slot].copy_(ring[slot], non_blocking=True)
            copied[slot].record(copies)
        copied[0].synchronize()
        with pytest.raises(DataRace, match="fill_ writes"):
            ring[1].fill_(0)


def test_batch_norm_writes_its_statistics(two_gpus):
    norm = torch.nn.BatchNorm2d(2).cuda()
    image = torch.ones(1, 2, 3, 3, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with cudasim.races(), torch.no_grad():
        norm(image)
        with torch.cuda.stream(side):
            with pytest.raises(DataRace, match="clone reads"):
                norm.running_mean.clone()
        torch.cuda.synchronize()
        norm.eval()(image)
        with torch.cuda.stream(side):
            norm.running_mean.clone()


def test_both_gpus_wait_for_a_copy_that_raced(two_gpus):
    side = torch.cuda.Stream(1)
    with cudasim.races():
        x = torch.ones(100, device="cuda:0")
        y = x.to("cuda:1", non_blocking=True)
        side.wait_stream(torch.cuda.current_stream(1))
        with torch.cuda.stream(side):
            y + 1
        del y
        with pytest.raises(DataRace, match="_to_copy writes"):
            x.to("cuda:1", non_blocking=True)  # takes memory that `side` reads
        x.add_(1)  # in the stream of cuda:0 that has waited for the copy


def test_few_accesses_to_a_memory_are_remembered():
    def remembered(tensor):
        return len(getattr(tensor.untyped_storage(), ACCESSES).uses)

    with cudasim.simulate(races="raise"):
        ring, side = torch.zeros(4, 10, device="cuda"), torch.cuda.Stream()
        for step in range(2000):
            slot = ring[step % 4]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                slot.fill_(step)
        assert remembered(ring) == 5  # with the write of the whole by `zeros`

        cache = torch.zeros(1, 3 * MOST_USES, 2, device="cuda")
        for step in range(1, cache.shape[1]):
            cache[:, step].fill_(1)
            cache[:, :step].sum()
        assert remembered(cache) <= MOST_USES
        cache.zero_()
        assert remembered(cache) == 1


def test_what_reads_on_the_host_races_with_a_copy_home(two_gpus):
    # `tensor.to("cpu", non_blocking=True)` returns before the numbers are there:
    # https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    x = torch.ones(4, device="cuda")
    for read in (torch.Tensor.tolist, repr, pickle.dumps):
        with cudasim.races(), pytest.raises(DataRace, match="the host"):
            read(x.to("cpu", non_blocking=True))
        with cudasim.races():
            copied = x.to("cpu", non_blocking=True)
            torch.cuda.synchronize()
            read(copied)


def ask_stream(stream, event):
    assert stream.query()


def ask_event(stream, event):
    assert event.query()


def ask_time(stream, event):
    # It has an answer only if both events are done, or it raises.
    assert event.elapsed_time(event) == 0


def ask_another_stream(stream, event):
    assert torch.cuda.default_stream().query()


def ask_too_early(stream, event):
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**9)
    assert not stream.query()


ANSWERS = {ask_stream: True, ask_event: True, ask_time: True}
ANSWERS |= {ask_another_stream: False, ask_too_early: False}


@pytest.mark.parametrize("ask", ANSWERS)
def test_the_host_learns_what_is_done_from_an_answer(ask, two_gpus):
    # cudaStreamQuery returns cudaSuccess if all work of the stream is done, and
    # cudaErrorNotReady if not; cudaEventElapsedTime does so for its events.
    stream, target = torch.cuda.Stream(), torch.empty(4, pin_memory=True)
    x = torch.ones(4, device="cuda")
    torch.cuda.synchronize()
    with cudasim.races():
        with torch.cuda.stream(stream):
            target.copy_(x, non_blocking=True)
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        ask(stream, event)
        with nullcontext() if ANSWERS[ask] else pytest.raises(DataRace):
            target.sum()


def test_training_has_no_race():
    with cudasim.simulate(2, races="raise"):
        layers = torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
        net = torch.nn.Sequential(*layers).cuda()
        side = torch.cuda.Stream()
        adam = torch.optim.Adam(net.parameters())
        for _ in range(2):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                batch = torch.rand(3, 6).pin_memory().cuda(non_blocking=True)
                loss = net(batch).sum()
            loss.backward()  # the engine waits for the streams of what it differentiates
            adam.step()
            adam.zero_grad()
        assert loss.isfinite()


def test_every_thread_is_looked_at():
    with cudasim.simulate(races="raise"), pytest.raises(DataRace):
        in_thread(lambda: two_streams(False))


RACING = """\
    import torch
    x = torch.ones(2, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        y = x + 1
    print(y.tolist())
"""


def test_a_program_is_warned_of_in_the_line_that_races(tmp_path):
    script = write(tmp_path / "a.py", RACING)
    command = ["-m", "cudasim", "--races", "warn", script]
    done = run(*command, cwd=tmp_path, PYTHONWARNINGS="default")
    assert done.returncode == 0
    assert done.stdout.endswith("[2.0, 2.0]\n")
    assert "a.py:4: UserWarning: data race: add reads" in done.stderr


THROUGH_A_HELPER = """\
    import torch
    def double(x):
        return torch.nn.functional.relu(x) * 2
    x = double(torch.ones(2, device="cuda"))
    with torch.cuda.stream(torch.cuda.Stream()):
        y = double(x)
"""
SHOWN_LINES = """\
relu was called here:
  File "{0}", line 6, in <module>
    y = double(x)
  File "{0}", line 3, in double
    return torch.nn.functional.relu(x) * 2
mul was called here:
  File "{0}", line 4, in <module>
    x = double(torch.ones(2, device="cuda"))
  File "{0}", line 3, in double
    return torch.nn.functional.relu(x) * 2
"""


def test_a_race_shows_the_lines_of_both_operations(tmp_path):
    script = write(tmp_path / "a.py", THROUGH_A_HELPER)
    command = ["-m", "cudasim", "--races", "raise", script]
    done = run(*command, cwd=tmp_path, fresh=True)  # no other frame calls the program
    assert done.returncode == 1
    assert done.stderr.endswith(SHOWN_LINES.format(script))


def ones_on_a_new_stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.ones(1000, device="cuda")


def test_memory_of_the_driver_was_waited_for():
    """cudaFree waits for all work on the GPU."""
    with cudasim.simulate(races="raise"):
        ones_on_a_new_stream()
        torch.cuda.empty_cache()
        ones_on_a_new_stream()


def test_looking_for_races_needs_a_simulation():
    with pytest.raises(RuntimeError, match=r"call cudasim\.enable"), cudasim.races():
        pass
