"""The types of device that can be simulated.

Nothing here imports torch when it is imported, because the environment is read before
torch is.
"""

from cudasim.device.types.base import DeviceType
from cudasim.device.types.cuda import CUDA
from cudasim.device.types.mps import MPS

__all__ = ["DEFAULT", "TYPES", "DeviceType", "find_type"]

DEFAULT = CUDA()
TYPES: dict[str, DeviceType] = {type.name: type for type in (DEFAULT, MPS())}


def find_type(name: object, source: str = "device_type") -> DeviceType:
    """Return the type called `name`. Raises ValueError if there is none.

    The message calls the setting `source`.
    """
    type = TYPES.get(name) if isinstance(name, str) else None
    if type is None:
        names = ", ".join(TYPES)
        raise ValueError(f"{source}={name!r}: unknown; choose one of {names}")
    return type
