"""`torch.accelerator`: the same in words that fit every maker's card."""

import torch

from fidelity.asking import gpus, raised


def the_accelerator_is_cuda():
    accelerator = torch.accelerator
    return accelerator.is_available(), repr(accelerator.current_accelerator())


def the_first_gpu_is_current():
    return (
        torch.accelerator.current_device_index(),
        torch.accelerator.device_count() >= 1,
    )


def a_context_and_back():
    with torch.accelerator.device_index(0):
        within = torch.cuda.current_device()
    return within, torch.accelerator.current_device_index()


def choosing_a_gpu_that_is_not_there():
    return raised(lambda: torch.accelerator.set_device_index(99))


def choosing_what_is_no_gpu():
    return [
        raised(lambda: torch.accelerator.set_device_index("cpu")),
        raised(lambda: torch.accelerator.set_device_index(1.5)),
    ]


def the_current_stream():
    stream = torch.accelerator.current_stream()
    return str(stream.device), stream == torch.cuda.current_stream()


def waiting():
    return torch.accelerator.synchronize(), raised(
        lambda: torch.accelerator.synchronize("cpu")
    )


def memory_is_counted_alike():
    x = torch.ones(1, device="cuda")
    accelerator, cuda = torch.accelerator, torch.cuda
    return x.is_cuda, [
        accelerator.memory_allocated() == cuda.memory_allocated() == 512,
        accelerator.memory_reserved() == cuda.memory_reserved(),
        accelerator.max_memory_allocated() == cuda.max_memory_allocated(),
        accelerator.memory_stats() == cuda.memory_stats(),
    ]


def memory_of_a_gpu_that_is_not_there():
    torch.cuda.init()
    return raised(lambda: torch.accelerator.memory_allocated(99))


@gpus(2)
def the_current_gpu_is_changed():
    torch.accelerator.set_device_index(1)
    told = torch.cuda.current_device(), torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(0)
    return told
