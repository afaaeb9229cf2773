"""The types of device that can be simulated. Nothing here imports torch when it is imported: the
environment is read before torch is."""

from cudasim.device.types.base import DeviceType
from cudasim.device.types.cuda import CUDA
from cudasim.device.types.mps import MPS

__all__ = ["DEFAULT", "TYPES", "DeviceType", "find_type"]

DEFAULT = CUDA()
TYPES: dict[str, DeviceType] = {type.name: type for type in (DEFAULT, MPS())}


def find_type(name: object, source: str = "device_type") -> DeviceType:
    """The type called `name`. Raises ValueError, with what there is; `source` is who named it."""
    found = TYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"{source}={name!r}: unknown; choose one of {', '.join(TYPES)}"
        )
    return found
