"""Simulated GPUs for TensorFlow: logical devices of the CPU, with the names of GPUs.

TensorFlow prefers its first device, which is GPU 0 on a machine with GPUs. So the first logical
devices are called GPUs, and the last one is called the CPU.
"""

import functools
import re

from cudasim.frameworks import load, number, say

TRIED = "2.20.0", "2.21.0"  # of TensorFlow: Colab's, and the newest; both have the names below

_simulated = 0  # GPUs


def enable(gpus: int | None = None) -> None:
    """Let TensorFlow see `gpus` simulated GPUs, two by default; one line says so.

    Where real ones are there it says that, and does nothing. Raises ValueError for a number that
    makes no sense; RuntimeError for another number than before, for a TensorFlow that is missing
    or was not tried, and if TensorFlow has used devices already.
    """
    global _simulated
    wanted = number(gpus, _simulated, "TensorFlow")
    if not wanted:
        return
    tf = load("tensorflow", TRIED)
    from tensorflow.python.eager import context

    real = len(tf.config.list_physical_devices("GPU"))
    if not real:
        if context.context()._initialized:
            raise RuntimeError(
                "TensorFlow has used devices already: restart, and enable GPUs first"
            )
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * (wanted + 1)
        tf.config.set_logical_device_configuration(cpu, parts)
        context.context().ensure_initialized()
        list_devices(context.context(), wanted)
        rename(wanted)
        _simulated = wanted
    say(wanted, "TensorFlow", real)


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

    def translate(owner: type, name: str) -> None:
        own = getattr(owner, name)
        setattr(owner, name, property(lambda self: read(own.__get__(self))))

    for owner in (EagerTensor, SymbolicTensor, Operation):
        translate(owner, "device")
    translate(EagerTensor, "backing_device")
    enter, place = _EagerDeviceContext.__init__, Operation._set_device_from_string
    fail = OpError.__init__
    _EagerDeviceContext.__init__ = lambda self, context, name: enter(self, context, given(name))
    Operation._set_device_from_string = lambda self, name: place(self, given(name))
    OpError.__init__ = lambda self, node, op, message, *rest: fail(
        self,
        node,
        op,
        re.sub(r"/job:localhost\S+CPU:\d+", lambda name: read(name[0]), message),
        *rest,
    )
