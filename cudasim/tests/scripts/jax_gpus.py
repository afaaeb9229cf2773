"""Simulated GPUs in JAX, with no torch: their names, where arrays are, and what is refused."""

import sys

import jax
import jax.numpy as jnp
import numpy

import cudasim

cudasim.jax.enable(gpus=2)
assert "torch" not in sys.modules

# Names.
first, second = jax.devices("gpu")
assert jax.devices() == [first, second]
assert jax.devices("cuda") == [first, second]
assert repr([first, second]) == "[CudaDevice(id=0), CudaDevice(id=1)]"
assert str(second) == "cuda:1"
assert second.platform == "gpu"
assert jax.default_backend() == "gpu"
(cpu,) = jax.devices("cpu")
assert repr(cpu) == "CpuDevice(id=0)"
assert cpu.platform == "cpu"

# Places.
X = jnp.ones(3)
Y = jax.device_put(numpy.ones(3), second)
assert X.devices() == {first}
assert (X + Y).devices() == {second}
assert (1.0 + Y).devices() == {second}
committed = jax.device_put(X, first)  # from here on it insists on its device
assert (jax.device_put(committed, second) + Y).devices() == {second}
_, singular_values, _ = jax.jit(jnp.linalg.svd)(jnp.outer(Y, Y))  # the CPU's kernel
assert singular_values.devices() == {second}

# Errors.
for other in (committed, jax.device_put(1.0, cpu)):
    try:
        print((other + Y).devices())
    except ValueError as error:
        print(error)
cudasim.jax.enable(gpus=2)  # a cell that runs again
try:
    cudasim.jax.enable(gpus=3)
except RuntimeError as error:
    print(error)
