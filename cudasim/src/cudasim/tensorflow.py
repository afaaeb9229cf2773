"""Simulated GPUs for TensorFlow: the first logical devices of the CPU are called GPUs, as it uses
its first device unless told, and the last one is called the CPU."""

import functools
import re
from typing import Any

from cudasim import frameworks

TRIED = (
    "2.20.0",
    "2.21.0",
)  # of TensorFlow: Colab's, and the newest; both have the names below


def enable(gpus: int | None = None) -> None:
    """Let TensorFlow see `gpus` simulated GPUs, two by default, unless real ones are there.
    One line says what it sees. Raises ValueError for a number that makes no sense; RuntimeError for
    another than before, for a TensorFlow that is missing, was not tried, or has used devices."""
    frameworks.enable("TensorFlow", TRIED, gpus, simulate)


def simulate(tf: Any, gpus: int) -> int:
    from tensorflow.python.eager import context

    if real := tf.config.list_physical_devices("GPU"):
        return len(real)
    own = context.context()
    if own._initialized:
        raise RuntimeError(frameworks.USED.format("TensorFlow"))
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * (gpus + 1)
    tf.config.set_logical_device_configuration(cpu, parts)
    own.ensure_initialized()
    # From here on it answers with one CPU and `gpus` GPUs when it is asked for devices.
    names = ["CPU:0", *(f"GPU:{index}" for index in range(gpus))]
    physical = [
        context.PhysicalDevice(f"/physical_device:{each}", each[:3]) for each in names
    ]
    own._physical_devices = physical
    own._logical_devices = [
        context.LogicalDevice(f"/device:{each}", each[:3]) for each in names
    ]
    own._memory_growth_map = dict.fromkeys(
        physical[1:], True
    )  # so that it can be asked for
    own._num_gpus = gpus
    own.get_visible_devices = own.list_physical_devices
    details = {"GPU": {"device_name": "Simulated GPU"}}
    own.get_device_details = lambda device: {**details.get(device.device_type, {})}
    rename(gpus)
    return 0


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
            spec = spec.replace(
                device_type=kind, device_index=spec.device_index - index
            )
        return spec.to_string()

    def translated(own: Any) -> property:
        return property(lambda self: read(own.__get__(self)))

    for owner in (EagerTensor, SymbolicTensor, Operation):
        owner.device = translated(owner.device)
    EagerTensor.backing_device = translated(EagerTensor.backing_device)
    enter, place = _EagerDeviceContext.__init__, Operation._set_device_from_string
    fail = OpError.__init__
    _EagerDeviceContext.__init__ = lambda self, context, name: enter(
        self, context, given(name)
    )
    Operation._set_device_from_string = lambda self, name: place(self, given(name))
    cpu = re.compile(r"/job:localhost\S+CPU:\d+")
    OpError.__init__ = lambda self, node, op, message, *rest: fail(
        self, node, op, cpu.sub(lambda name: read(name[0]), message), *rest
    )
