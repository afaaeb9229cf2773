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
from programs import run, write

import cudasim

JAX = """
    import sys, numpy, jax, jax.numpy as jnp
    import cudasim

    cudasim.jax.enable(gpus=2)
    assert "torch" not in sys.modules
    first, second = jax.devices("gpu")
    assert jax.devices() == jax.devices("cuda") == [first, second]
    assert repr([first, second]) == "[CudaDevice(id=0), CudaDevice(id=1)]"
    assert (str(second), second.platform, jax.default_backend()) == ("cuda:1", "gpu", "gpu")
    (cpu,) = jax.devices("cpu")
    assert (repr(cpu), cpu.platform) == ("CpuDevice(id=0)", "cpu")

    X, Y = jnp.ones(3), jax.device_put(numpy.ones(3), second)
    assert X.devices() == {first} and (X + Y).devices() == (1.0 + Y).devices() == {second}
    X = jax.device_put(X, first)  # from here on it insists on its device
    assert (jax.device_put(X, second) + Y).devices() == {second}
    assert jax.jit(jnp.linalg.svd)(jnp.outer(Y, Y))[1].devices() == {second}  # the CPU's kernel
    for other in X, jax.device_put(1.0, cpu):
        try:
            print((other + Y).devices())
        except ValueError as error:
            print(error)
    AGAIN
"""
TENSORFLOW = """
    import sys
    import tensorflow as tf, cudasim

    cudasim.tensorflow.enable(gpus=2)
    assert "torch" not in sys.modules
    names = ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]
    assert [each.name for each in tf.config.list_logical_devices()] == names
    first, second = tf.config.list_physical_devices("GPU")
    tf.config.experimental.set_memory_growth(second, True)
    assert second.name == "/physical_device:GPU:1"

    def place(name, make=lambda: tf.ones(3)):
        with tf.device(name):
            return make()

    where = lambda tensor: tensor.device.removeprefix("/job:localhost/replica:0/task:0/device:")
    X, Y, on_host = (place(name) for name in ("GPU:0", "/gpu:1", "CPU"))
    weight = place("GPU:1", lambda: tf.Variable([1.0]))
    assert [where(each) for each in (X, Y, on_host, weight)] == ["GPU:0", "GPU:1", "CPU:0", "GPU:1"]
    made = tf.constant(1.0), place("GPU:7"), place(None), X + Y, Y + Y, weight + 1
    assert {where(each) for each in made} == {"GPU:0"}  # the first, unless one is named
    assert where(place("GPU:1", lambda: X + on_host)) == "GPU:1"
    traced = []

    @tf.function
    def function(x):
        traced.append(place("GPU:1", lambda: 2 * x).device)
        with tf.init_scope():
            traced.append(where(place("CPU:0")))

    function(X)
    assert traced == ["/device:GPU:1", "CPU:0"]
    try:
        tf.function(lambda: weight + 1, jit_compile=True)()
    except tf.errors.InvalidArgumentError as error:
        print(str(error).partition("located in ")[2].splitlines()[0])
    AGAIN
"""
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
AGAIN = """
    cudasim.{name}.enable(gpus=2)  # a cell that runs again
    try:
        cudasim.{name}.enable(gpus=3)
    except RuntimeError as error:
        print(error)
"""
PROGRAMS = {"jax": JAX, "tensorflow": TENSORFLOW}
LATE = {
    "jax": "import jax; jax.devices()",
    "tensorflow": "import tensorflow as tf; tf.ones(1)",
}
FRAMEWORKS = [("jax", "JAX"), ("tensorflow", "TensorFlow")]


def run_in(framework, text, folder):
    """Run a program with the Python of an environment that has the framework."""
    variable = f"CUDASIM_{framework.upper()}"
    if variable not in os.environ:
        reason = f"{variable} names no Python that has {framework}"
        pytest.skip(f"{reason}; see the head of {__file__}")
    script = write(folder / "script.py", text)
    return run(script, cwd=folder, python=os.environ[variable], TF_CPP_MIN_LOG_LEVEL=3)


@pytest.mark.parametrize(("name", "title"), FRAMEWORKS)
def test_names_placement_and_errors(tmp_path, name, title):
    again = AGAIN.format(name=name)
    done = run_in(name, PROGRAMS[name].replace("    AGAIN", again), tmp_path)
    assert done.returncode == 0, done.stderr
    # JAX 0.7 leaves out a "with".
    text = done.stdout.replace("] and device", "] and with device")
    assert text.splitlines() == [
        f"cudasim: 2 simulated GPUs in {title}, computed on the CPU",
        *ERRORS[name],
        f"2 GPUs are simulated in {title} already; for 3 start a new process",
    ]


@pytest.mark.parametrize(("name", "title"), FRAMEWORKS)
def test_devices_that_were_used(tmp_path, name, title):
    text = f"{LATE[name]}\nimport cudasim.{name} as it; it.enable()"
    last = run_in(name, text, tmp_path).stderr.splitlines()[-1]
    words = f"{title} has used devices already: restart, and enable GPUs first"
    assert last == f"RuntimeError: {words}"


@pytest.mark.parametrize("name", PROGRAMS)
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
