"""What begins when a program first uses a GPU: which cards it sees, and what no fork survives."""

import functools
import multiprocessing
import os
import subprocess
import sys

import pytest
import torch
from calls import raised
from torch.utils.data import DataLoader, Dataset

import cudasim
from cudasim import config
from cudasim.device.gpu import Machine
from cudasim.device.specs import CARDS

UUIDS = Machine(CARDS["T4"], 2).uuids()
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
REFUSED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
    "use the 'spawn' start method"
)

FIRST, SECOND = UUIDS
# What the variable says, and the numbers of the cards that are left.
BY_NUMBER = [
    ("0", [0]),
    ("1", [1]),
    ("1,0", [1, 0]),
    (" 1 , 0 ", [1, 0]),
    ("0,2,1", [0]),
    ("1,x,0", [1]),
    ("1x,0", [1, 0]),
    ("+1", [1]),
]
BY_UUID = [
    (SECOND, [1]),
    (f"{SECOND},{FIRST}", [1, 0]),
    (SECOND[:10], [1]),
    (f"{SECOND},0", [1]),
    (f"0,{SECOND}", [0]),
]
NONE_LEFT = ["", "-1", "1,1", "NoDevFiles", "GPU-", "GPU-no", f"{SECOND},{SECOND}"]


def cards_seen():
    """Return the numbers of the cards that the program sees, in its order."""
    numbers = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        numbers.append(properties.pci_bus_id - 1)
    return numbers


def cards_by_pytorch():
    """Return the numbers that PyTorch itself reads from the variable, whatever is there."""
    named = torch.cuda._parse_visible_devices()
    if named and isinstance(named[0], str):
        named = torch.cuda._transform_uuid_to_ordinals(named, UUIDS)
    return named


@pytest.mark.parametrize(("visible", "left"), BY_NUMBER + BY_UUID)
def test_cards_are_shown_in_the_order_of_the_variable(visible, left, monkeypatch):
    monkeypatch.setenv(config.VISIBLE, visible)
    by_pytorch = [number for number in cards_by_pytorch() if number < 2]
    assert by_pytorch[: len(left)] == left

    with cudasim.simulate(gpus=2):
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == len(left)
        for index in range(len(left)):
            x = torch.ones(2, device=index)
            assert x.device == torch.device("cuda", index)
        assert cards_seen() == left
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(2, device=f"cuda:{len(left)}")


@pytest.mark.parametrize("visible", NONE_LEFT)
def test_a_variable_may_leave_no_card(visible, monkeypatch):
    monkeypatch.setenv(config.VISIBLE, visible)
    with cudasim.simulate(gpus=2):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        with pytest.raises(RuntimeError, match="No CUDA"):
            torch.ones(2, device="cuda:0")


def test_a_program_that_sees_no_card_is_told_so(monkeypatch, capsys):
    monkeypatch.setenv(config.VISIBLE, "")
    with cudasim.simulate(gpus=2):
        assert "of which CUDA_VISIBLE_DEVICES='' shows none" in capsys.readouterr().out
        for use in (
            lambda: torch.ones(1, device="cuda"),
            torch.ones(1).cuda,
            torch.nn.Linear(1, 1).cuda,
            torch.cuda.current_device,
            torch.cuda.get_device_properties,
            torch.cuda.Stream,
        ):
            assert raised(use) == "No CUDA GPUs are available"
        assert not torch.accelerator.is_available()
        assert torch.cuda.memory_allocated() == 0
        torch.manual_seed(1)
        assert (torch.ones(1) + 1).tolist() == [2]


def test_the_variable_counts_until_the_first_use(monkeypatch):
    with cudasim.simulate(gpus=2):
        assert torch.cuda.device_count() == 2
        monkeypatch.setenv(config.VISIBLE, "1")
        assert torch.cuda.device_count() == len(torch.cuda.default_generators) == 1
        torch.cuda.manual_seed_all(3)
        assert not torch.cuda.is_initialized()

        x = torch.ones(1, device="cuda")
        assert torch.cuda.is_initialized()
        assert cards_seen() == [1]
        monkeypatch.setenv(config.VISIBLE, "0,1")
        assert torch.cuda.device_count() == 1
        assert str(x.device) == "cuda:0"
        make = functools.partial(torch.ones, 1, device="cuda:1")
        # As PyTorch 2.13 has it in c10/cuda/CUDAMiscFunctions.cpp and CUDAException.cpp.
        assert raised(make, torch.AcceleratorError) == (
            "CUDA error: invalid device ordinal\n"
            "GPU device may be out of range, do you have enough GPUs?\n"
            "For more detailed error information, run with CUDA_LOG_FILE=stderr\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        )


CARDS_SEEN = """
import torch
properties = torch.cuda.get_device_properties
print([properties(i).pci_bus_id - 1 for i in range(torch.cuda.device_count())])
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("visible", "force", "seen"), [("1", False, "[1]"), ("-1", True, "[0, 1]")]
)
def test_a_started_program_sees_the_same_cards(
    monkeypatch, tmp_path, visible, force, seen
):
    """A forced simulation ignores what hides the cards of the machine, as a runner does."""
    monkeypatch.setenv(config.VISIBLE, visible)
    with cudasim.simulate(gpus=2, force=force):
        assert str(cards_seen()) == seen
        command = [sys.executable, "-c", CARDS_SEEN]
        got = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (got.stdout.strip(), got.stderr) == (seen, "")
        # It shows every card.
        query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        assert subprocess.check_output(query, text=True) == "0\n1\n"


def in_fork(call):
    """Return what `call` returns in a forked process, as text, or the head of its error."""

    def answer():
        try:
            sender.send(str(call()))
        except Exception as error:
            sender.send(str(error).splitlines()[0])

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=answer)
    process.start()
    text = receiver.recv() if receiver.poll(60) else "it did not end"
    process.kill()
    process.join()
    return text


@forks
def test_a_process_may_fork_until_it_has_used_a_gpu(two_gpus):
    torch.cuda.is_available()
    torch.cuda.device_count()
    torch.manual_seed(1)
    make = functools.partial(torch.ones, 1, device="cuda:1")
    assert in_fork(make) == "tensor([1.], device='cuda:1')"

    make()
    for use in (
        make,
        torch.ones(2).cuda,
        torch.nn.Linear(2, 2).cuda,
        torch.cuda.synchronize,
        torch.cuda.Stream,
        torch.cuda.current_device,
        lambda: torch.cuda.set_device(1),
    ):
        assert in_fork(use) == REFUSED


@forks
def test_a_fork_may_be_allowed_to_use_the_gpu(monkeypatch, two_gpus):
    x = torch.ones(1, device="cuda")
    monkeypatch.setenv(config.FORK, "allow")
    assert in_fork(lambda: (x + torch.ones(1, device="cuda")).tolist()) == "[2.0]"
    cudasim.disable()
    monkeypatch.setenv(config.FORK, "yes")
    words = r"^CUDASIM_FORK='yes': unknown; set it to 'allow', or"
    with pytest.raises(ValueError, match=words):
        cudasim.enable()


@forks
def test_tensors_do_not_survive_a_fork(two_gpus):
    x = torch.ones(2, device="cuda:1")
    for use in (
        lambda: x + 1,
        x.cpu,
        x.tolist,
        x.__repr__,
        x[0].item,
        lambda: x.add_(1),
    ):
        assert in_fork(use) == "CUDA error: initialization error"

    def use_the_cpu():
        torch.manual_seed(1)
        return torch.ones(1) + 1

    assert in_fork(lambda: x.device) == "cuda:1"
    assert in_fork(lambda: x.shape) == "torch.Size([2])"
    assert in_fork(torch.cuda._is_in_bad_fork) == "True"
    assert in_fork(torch.cuda.is_initialized) == "False"
    assert in_fork(use_the_cpu) == "tensor([2.])"
    assert (x + 1).tolist() == [2, 2]  # the parent goes on


class OnGpu(Dataset):
    """Rows that a worker makes on a GPU."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(1, device="cuda")


@forks
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)
@pytest.mark.parametrize("kept", [False, True])
def test_workers_that_touch_a_gpu(two_gpus, kept):
    weights = torch.ones(1, device="cuda")
    # A worker copies those that are kept into a batch.
    data = [weights] if kept else OnGpu()
    loader = DataLoader(data, num_workers=1, multiprocessing_context="fork")
    assert REFUSED in raised(lambda: list(loader))
