"""Memory is asked for before the work is done: the host never makes what the card cannot hold."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from programs import SCRIPTS, run
from scripts.large_results import PROGRAMS

import cudasim
from cudasim.dispatch import foresight, placement


class Answer(NamedTuple):
    """What a program was told, what it took of the host in MiB, what it left on the card."""

    error: str
    host_mib: int
    left: int


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """The answer to each program, by its name."""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("what the host has held at most is read from Linux's /proc")
    done = run(SCRIPTS / "large_results.py", cwd=tmp_path_factory.mktemp("host"))
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    return {name: Answer(*values) for name, values in answers.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_card_cannot_hold_is_never_made_on_the_host(answers, name):
    answer = answers[name]
    assert answer.error == "CUDA out of memory"
    assert answer.host_mib < 256
    assert answer.left == 0  # what was taken for it is given back


def test_an_empty_nested_tensor_is_computed_with():
    with cudasim.simulate(gpus=1, force=True):
        nested = torch.nested.nested_tensor([torch.empty(0, 3)], device="cuda")
        assert nested.softmax(-1).is_cuda


def bytes_of_a_program():
    """Return the bytes that a program holds, and the most that it has held."""
    with cudasim.simulate(gpus=1, force=True):
        x = torch.rand(200, 300, device="cuda", requires_grad=True)
        weight = torch.ones(2, 1, 3, 3, device="cuda")
        image = torch.nn.functional.conv2d(x[None, None], weight)
        product = x @ x.T
        y = torch.cat([image.flatten(), product.flatten()])
        del image, product
        y = y.sort().values.double()
        y.sum().backward()
        results = [torch.arange(5, device="cuda"), torch.eye(3, device="cuda")]
        results.append(x.to("cpu").cuda())
        results.append(torch.std_mean(x[x > 0.5]))
        held = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        del results
        return held


def test_what_is_foreseen_is_what_is_counted(monkeypatch):
    """With foresight of everything the figures are the same as with none."""
    afterwards = bytes_of_a_program()
    for module in (foresight, placement):
        monkeypatch.setattr(module, "LARGE_RESULT", 0)
    assert bytes_of_a_program() == afterwards
