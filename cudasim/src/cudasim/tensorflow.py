"""Simulated GPUs for TensorFlow.

TensorFlow uses its first device unless a program names another. So the first logical
devices of the CPU are called GPUs, and the last one is called the CPU.
"""

import functools
import re
from typing import Any

from cudasim import frameworks

# Versions of TensorFlow: Colab's, and the newest. Both have the private names below.
TRIED = ("2.20.0", "2.21.0")


def enable(gpus: int | None = None) -> None:
    """Let TensorFlow see `gpus` simulated GPUs, two by default, unless real ones are there.

    One line says what it sees. Raises ValueError for a number that makes no sense;
    RuntimeError for another number than before, and for a TensorFlow that is missing, was
    not tried, or has used devices already.
    """
    frameworks.enable("TensorFlow", TRIED, gpus, simulate)


def simulate(tf: Any, gpus: int) -> int:
    """Add `gpus` GPUs, unless there are real ones; return how many of those."""
    from tensorflow.python.eager import context

    real = tf.config.list_physical_devices("GPU")
    if real:
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
    physical, logical = [], []
    for name in names:
        kind = name[:3]
        physical.append(context.PhysicalDevice(f"/physical_device:{name}", kind))
        logical.append(context.LogicalDevice(f"/device:{name}", kind))
    own._physical_devices = physical
    own._logical_devices = logical
    # So that programs can ask for memory growth.
    own._memory_growth_map = dict.fromkeys(physical[1:], True)
    own._num_gpus = gpus
    own.get_visible_devices = own.list_physical_devices
    own.get_device_details = _device_details
    rename(gpus)
    return 0


def _device_details(device: Any) -> dict[str, str]:
    if device.device_type == "GPU":
        return {"device_name": "Simulated GPU"}
    return {}


class Names:
    """Names of devices as a program and as TensorFlow use them.

    A program's GPUs are the first of TensorFlow's CPUs.
    """

    def __init__(self, gpus: int) -> None:
        self.gpus = gpus
        # Names recur with every operation.
        self.to_own = functools.cache(self._to_own)
        self.to_public = functools.cache(self._to_public)

    def _to_own(self, name: str | None) -> str | None:
        """Return TensorFlow's name for a device that a program names."""
        from tensorflow.python.framework.device import DeviceSpec

        if not name:
            return name
        spec = DeviceSpec.from_string(name)
        index = spec.device_index or 0
        if spec.device_type == "CPU":
            spec = spec.replace(device_index=self.gpus + index)
        elif (
            spec.device_type == "GPU" and index < self.gpus
        ):  # others are missing, and stay
            spec = spec.replace(device_type="CPU", device_index=index)
        return spec.to_string()

    def _to_public(self, name: str) -> str:
        """Return a program's name for a device that TensorFlow names."""
        from tensorflow.python.framework.device import DeviceSpec

        spec = DeviceSpec.from_string(name)
        if spec.device_type == "CPU":
            index = spec.device_index
            if index < self.gpus:
                spec = spec.replace(device_type="GPU", device_index=index)
            else:
                spec = spec.replace(device_type="CPU", device_index=index - self.gpus)
        return spec.to_string()


def rename(gpus: int) -> None:
    """Translate names of devices where a program gives them, and where it reads them."""
    names = Names(gpus)
    _translate_results(names)
    _translate_requests(names)
    _translate_errors(names)


def _translate_results(names: Names) -> None:
    from tensorflow.python.framework.ops import EagerTensor, Operation, SymbolicTensor

    def translated(own: Any) -> property:
        return property(lambda self: names.to_public(own.__get__(self)))

    for owner in (EagerTensor, SymbolicTensor, Operation):
        owner.device = translated(owner.device)
    EagerTensor.backing_device = translated(EagerTensor.backing_device)


def _translate_requests(names: Names) -> None:
    from tensorflow.python.eager.context import _EagerDeviceContext
    from tensorflow.python.framework.ops import Operation

    enter = _EagerDeviceContext.__init__
    place = Operation._set_device_from_string

    def enter_device(self: Any, context: Any, name: str | None) -> None:
        enter(self, context, names.to_own(name))

    def place_operation(self: Any, name: str | None) -> Any:
        return place(self, names.to_own(name))

    _EagerDeviceContext.__init__ = enter_device
    Operation._set_device_from_string = place_operation


def _translate_errors(names: Names) -> None:
    from tensorflow.python.framework.errors import OpError

    fail = OpError.__init__
    own_name = re.compile(r"/job:localhost\S+CPU:\d+")

    def make_error(self: Any, node: Any, op: Any, message: str, *rest: Any) -> None:
        public = own_name.sub(lambda match: names.to_public(match[0]), message)
        fail(self, node, op, public, *rest)

    OpError.__init__ = make_error
