"""Simulated GPUs in JAX and TensorFlow, in environments that have these and no torch.

python3 -m venv /tmp/jax && /tmp/jax/bin/pip install jax==0.10.2  # or another that was tried
python3 -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu==2.21.0
CUDASIM_JAX=/tmp/jax/bin/python CUDASIM_TENSORFLOW=/tmp/tf/bin/python pytest test_frameworks.py
"""

import os
import sys
from types import SimpleNamespace

import pytest
from calls import raised
from programs import SCRIPTS, run

import cudasim

MIXED = (
    "Received incompatible devices for jitted computation. Got argument x of add "
    "with shape float32[{}] and with device ids [{}] on platform {} and argument y of add "
    "with shape float32[3] and with device ids [1] on platform GPU"
)
DEVICE = "/job:localhost/replica:0/task:0/device:GPU"
ERRORS = {
    "jax": [MIXED.format(3, 0, "GPU"), MIXED.format("", 0, "CPU")],
    "tensorflow": [f"device {DEVICE}:1 from device {DEVICE}:0"],
}
FRAMEWORKS = [("jax", "JAX"), ("tensorflow", "TensorFlow")]


def run_in(framework, *arguments, cwd):
    """Run `python *arguments` in an environment that has the framework."""
    variable = f"CUDASIM_{framework.upper()}"
    if variable not in os.environ:
        reason = f"{variable} names no Python that has {framework}"
        pytest.skip(f"{reason}; see the head of {__file__}")
    python = os.environ[variable]
    return run(*arguments, cwd=cwd, python=python, TF_CPP_MIN_LOG_LEVEL=3)


@pytest.mark.parametrize(("name", "title"), FRAMEWORKS)
def test_names_placement_and_errors(tmp_path, name, title):
    result = run_in(name, SCRIPTS / f"{name}_gpus.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    # JAX 0.7 leaves out a "with".
    text = result.stdout.replace("] and device", "] and with device")
    assert text.splitlines() == [
        f"cudasim: 2 simulated GPUs in {title}, computed on the CPU",
        *ERRORS[name],
        f"2 GPUs are simulated in {title} already; for 3 start a new process",
    ]


USES = {
    "jax": "import jax; jax.devices()",
    "tensorflow": "import tensorflow as tf; tf.ones(1)",
}


@pytest.mark.parametrize(("name", "title"), FRAMEWORKS)
def test_devices_that_were_used(tmp_path, name, title):
    program = f"{USES[name]}\nimport cudasim.{name}\ncudasim.{name}.enable()"
    result = run_in(name, "-c", program, cwd=tmp_path)
    error = f"{title} has used devices already: restart, and enable GPUs first"
    assert result.stderr.splitlines()[-1] == f"RuntimeError: {error}"


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_bad_input(monkeypatch, name):
    module = getattr(cudasim, name)
    words = raised(lambda: module.enable(gpus=0), ValueError)
    assert "gpus=0: the number of simulated GPUs is from 1 to 64" in words
    monkeypatch.setitem(sys.modules, name, None)
    assert raised(module.enable).startswith(f"no {name} here: 'pip install {name}==")

    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__="0.1"))
    oldest, newest = module.TRIED[0], module.TRIED[-1]
    words = f"tried with {name} {oldest} to {newest} alone, this is 0.1: "
    assert words in raised(module.enable)
