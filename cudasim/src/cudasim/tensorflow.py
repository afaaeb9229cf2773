"""Simulated GPUs for TensorFlow: the first logical devices of the CPU are called GPUs, as it uses
its first device unless told, and the last one is called the CPU."""

import functools
import re
from typing import Any

from cudasim import frameworks

TRIED = "2.21.0"  # of TensorFlow; the private names below are those of this version


def enable(gpus: int | None = None) -> None:
    """Let TensorFlow see `gpus` simulated GPUs, two by default, unless real ones are there.
    One line says what it sees. Raises ValueError for a number that makes no sense; RuntimeError for
    another than before, for a TensorFlow that is missing, was not tried, or has used devices."""
    frameworks.enable("TensorFlow", TRIED, gpus, simulate)


def simulate(tf: Any, gpus: int) -> int:
    from tensorflow.python.eager import context

    real = len(tf.config.list_physical_devices("GPU"))
    if not real:
        if context.context()._initialized:
            raise RuntimeError(frameworks.USED.format("TensorFlow"))
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * (gpus + 1)
        tf.config.set_logical_device_configuration(cpu, parts)
        context.context().ensure_initialized()
        list_devices(context.context(), gpus)
        rename(gpus)
    return real


def list_devices(context: object, gpus: int) -> None:
    """Let the context answer with one CPU and `gpus` GPUs when it is asked for devices."""
    from tensorflow.python.eager.context import LogicalDevice, PhysicalDevice

    names = ["CPU:0", *(f"GPU:{index}" for index in range(gpus))]
    physical = [PhysicalDevice(f"/physical_device:{name}", name[:3]) for name in names]
    context._physical_devices = physical
    context._logical_devices = [LogicalDevice(f"/device:{name}", name[:3]) for name in names]
    context._memory_growth_map = dict.fromkeys(physical[1:], True)  # so that it can be asked for
    context._num_gpus = gpus
    context.get_visible_devices = context.list_physical_devices
    context.get_device_details = lambda device: (
        {"device_name": "Simulated GPU"} if device.device_type == "GPU" else {}
    )


def rename(gpus: int) -> None:
    """Translate names of devices where a program gives them, and where it reads them."""
    from tensorflow.python.eager.context import _EagerDeviceContext
    from tensorflow.python.framework.device import DeviceSpec
    from tensorflow.python.framework.errors import OpError
    from tensorflow.python.framework.ops import EagerTensor, Operation, SymbolicTensor

    @functools.cache
    def given(name: str | None) -> str | None:
        spec = DeviceSpec.from_string(name or "")
        index = spec.device_index or 0
        if spec.device_type == "CPU":
            spec = spec.replace(device_index=gpus + index)
        elif spec.device_type == "GPU" and index < gpus:  # others are missing, and stay
            spec = spec.replace(device_type="CPU", device_index=index)
        return name and spec.to_string()

    @functools.cache
    def read(name: str) -> str:
        spec = DeviceSpec.from_string(name)
        if spec.device_type == "CPU":
            kind, index = ("GPU", 0) if spec.device_index < gpus else ("CPU", gpus)
            spec = spec.replace(device_type=kind, device_index=spec.device_index - index)
        return spec.to_string()

    def translated(own: Any) -> property:
        return property(lambda self: read(own.__get__(self)))

    for owner in (EagerTensor, SymbolicTensor, Operation):
        owner.device = translated(owner.device)
    EagerTensor.backing_device = translated(EagerTensor.backing_device)
    enter, place = _EagerDeviceContext.__init__, Operation._set_device_from_string
    fail = OpError.__init__
    _EagerDeviceContext.__init__ = lambda self, context, name: enter(self, context, given(name))
    Operation._set_device_from_string = lambda self, name: place(self, given(name))
    cpu = re.compile(r"/job:localhost\S+CPU:\d+")
    OpError.__init__ = lambda self, node, op, message, *rest: fail(
        self, node, op, cpu.sub(lambda name: read(name[0]), message), *rest
    )
