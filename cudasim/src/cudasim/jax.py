"""Simulated GPUs for JAX: a second client of the CPU in the place of CUDA's."""

from collections.abc import Callable
from typing import Any

from cudasim import frameworks

# Versions of JAX: Colab's, the last for Python 3.11, and the newest. All have the private
# names below.
TRIED = "0.7.2", "0.10.2", "0.12.0.1"


def enable(gpus: int | None = None) -> None:
    """Let JAX see `gpus` simulated GPUs, two by default, unless real ones are there.

    One line says what it sees. Raises ValueError for a number that makes no sense;
    RuntimeError for another number than before, and for a JAX that is missing, was not
    tried, or has used devices already.
    """
    frameworks.enable("JAX", TRIED, gpus, simulate)


def simulate(jax: Any, gpus: int) -> int:
    """Add a client with `gpus` GPUs, unless there are real ones; return how many of those."""
    from jax._src import xla_bridge
    from jax._src.lib import xla_client

    was_used = xla_bridge.backends_are_initialized()
    clients = xla_bridge.backends()
    real = 0
    for platform in xla_bridge.expand_platform_alias("gpu"):
        if platform in clients:
            real += clients[platform].device_count()
    if real:
        return real
    if was_used:
        raise RuntimeError(frameworks.USED.format("JAX"))

    client = xla_client.make_cpu_client(num_devices=gpus)
    clients["cuda"] = client
    xla_bridge._default_backend = client
    xla_bridge.default_backend = lambda: "gpu"
    jax.default_backend = xla_bridge.default_backend
    rename(xla_client.Device, client)
    return 0


def rename(device: type, client: object) -> None:
    """Let the devices of `client`, objects of the class `device`, answer as CUDA's do."""

    def replace(original: Callable, simulated: Callable) -> Callable:
        def answer(self: Any) -> str:
            return simulated(self) if self.client is client else original(self)

        return answer

    platform = replace(device.platform.fget, lambda self: "gpu")
    kind = replace(device.device_kind.fget, lambda self: "Simulated GPU")
    device.platform = property(platform)
    device.device_kind = property(kind)
    device.__repr__ = replace(device.__repr__, lambda self: f"CudaDevice(id={self.id})")
    device.__str__ = replace(device.__str__, lambda self: f"cuda:{self.id}")
