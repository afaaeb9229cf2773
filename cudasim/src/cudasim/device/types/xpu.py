"""Intel's GPUs."""

from cudasim.device.types.base import DeviceType


class XPU(DeviceType):
    """Intel's GPUs."""

    name, key, number, card = "xpu", "XPU", 12, "Max 1100"
    memory_advice = "Please use `empty_cache` to release all unoccupied cached memory."
