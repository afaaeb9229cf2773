"""Simulated GPUs for JAX: a second client of the CPU in the place of CUDA's."""

from collections.abc import Callable
from typing import Any

from cudasim import frameworks

# Of JAX: Colab's, the last for Python 3.11, and the newest. All have the private names below.
TRIED = "0.7.2", "0.10.2", "0.12.0.1"


def enable(gpus: int | None = None) -> None:
    """Let JAX see `gpus` simulated GPUs, two by default, unless real ones are there; one line says.
    Raises ValueError for a number that makes no sense; RuntimeError for another number than before,
    for a JAX that is missing, was not tried, or has used devices already."""
    frameworks.enable("JAX", TRIED, gpus, simulate)


def simulate(jax: Any, gpus: int) -> int:
    from jax._src import xla_bridge
    from jax._src.lib import xla_client

    used, clients = xla_bridge.backends_are_initialized(), xla_bridge.backends()
    platforms = xla_bridge.expand_platform_alias("gpu")
    real = sum(clients[name].device_count() for name in platforms if name in clients)
    if used and not real:
        raise RuntimeError(frameworks.USED.format("JAX"))
    if not real:
        client = xla_client.make_cpu_client(num_devices=gpus)
        clients["cuda"] = xla_bridge._default_backend = client
        jax.default_backend = xla_bridge.default_backend = lambda: "gpu"
        rename(xla_client.Device, client)
    return real


def rename(device: type, client: object) -> None:
    """Let the devices of `client`, objects of the class `device`, answer as CUDA's do."""

    def answer(own: Callable, cuda: Callable) -> Callable:
        return lambda self: cuda(self) if self.client is client else own(self)

    device.__repr__ = answer(device.__repr__, lambda self: f"CudaDevice(id={self.id})")
    device.__str__ = answer(device.__str__, lambda self: f"cuda:{self.id}")
    device.platform = property(answer(device.platform.fget, lambda self: "gpu"))
    device.device_kind = property(
        answer(device.device_kind.fget, lambda self: "Simulated GPU")
    )
