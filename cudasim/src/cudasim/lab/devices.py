"""Find the devices of this machine and their names, and wait for them."""

import sys
from typing import TYPE_CHECKING, Any

from cudasim.hardware import processor
from cudasim.installed import ADVICE

if TYPE_CHECKING:
    import torch


def import_torch() -> Any:
    """Return PyTorch. Raises ImportError with a one-line message if it is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        message = f"this needs PyTorch, which is not installed: {ADVICE}"
        raise ImportError(message) from None
    return torch


def accelerator() -> str:
    """Return the type of this machine's accelerator, such as 'cuda' or 'mps', or 'cpu'."""
    torch = import_torch()
    if not torch.accelerator.is_available():
        return "cpu"
    return torch.accelerator.current_accelerator().type


def gpu_count() -> int:
    """Return the number of accelerators that PyTorch sees."""
    return import_torch().accelerator.device_count()


def try_gpu(i: int = 0) -> "torch.device":
    """Return GPU `i` from any maker if it exists, and the CPU otherwise."""
    torch = import_torch()
    if not 0 <= i < gpu_count():
        return torch.device("cpu")
    return torch.device(accelerator(), i)


def as_device(device: "torch.device | str | int | None") -> "torch.device":
    """Return a device, given as a device, as a name or as the number of a GPU.

    None stands for the first GPU. If no GPU has the given number, the result is the CPU.
    """
    torch = import_torch()
    if device is None:
        device = 0
    if isinstance(device, int):
        return try_gpu(device)
    return torch.device(device)


def synchronize(*devices: "torch.device | str | int") -> None:
    """Wait until the given devices, by default all, have finished all launched work."""
    torch = import_torch()
    wanted = map(as_device, devices) if devices else map(try_gpu, range(gpu_count()))
    if not _is_used(torch):
        return
    for device in wanted:
        if device.type != "cpu":
            torch.accelerator.synchronize(device)


def _is_used(torch: Any) -> bool:
    """Return whether the program has used a GPU, because waiting for CUDA would start it."""
    return accelerator() != "cuda" or torch.cuda.is_initialized()


def wait_for(result: object = None) -> None:
    """Wait until the devices of all frameworks in use are done. JAX waits for `result`."""
    if "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(result)
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].test.experimental.sync_devices()
    if "mxnet" in sys.modules:
        sys.modules["mxnet"].npx.waitall()
    if "torch" in sys.modules:
        synchronize()


def session() -> Any:
    """Return the state of the running simulation of PyTorch's GPUs, or None."""
    module = sys.modules.get("cudasim.session")
    if module is None or module.session.mode is None:
        return None
    return module.session


def is_modelled() -> bool:
    """Return whether the times that this program reads come from a model."""
    running = session()
    return running is not None and running.clock is not None


def modelled_card() -> str:
    """Return the card for which times are modelled, or '' if they are not modelled."""
    return session().clock.sheet.name if is_modelled() else ""


def card(device: "torch.device | str | int | None" = None) -> str:
    """Return the name of a device, by default the first GPU, or the CPU without a GPU.

    The name of a simulated GPU tells you so: 'T4, modelled', or 'T4, simulated' if times
    are those of this machine's processor.
    """
    torch = import_torch()
    place = as_device(device)
    if place.type == "cpu":
        return processor()
    running = session()
    if running is not None:
        how = "modelled" if is_modelled() else "simulated"
        return f"{running.machine.card.name}, {how}"
    module = torch.get_device_module(place)
    if hasattr(module, "get_device_name"):
        return module.get_device_name(place)
    return "Apple GPU" if place.type == "mps" else f"{place.type} GPU"
