"""Moves between devices, NumPy, files and data loaders."""

import io

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from fidelity.helpers import errors, gpus, places, raised


def strides_survive_a_move():
    x = torch.arange(6).reshape(2, 3)
    image = torch.empty(1, 2, 3, 4).to(memory_format=torch.channels_last)
    return [list(y.cuda().stride()) for y in (x, x.T, image)]


def numpy_refuses_a_gpu_tensor():
    x = torch.ones(2, device="cuda")
    return errors(x.numpy, lambda: np.asarray(x), lambda: np.add(x, 1))


def views_and_copies_of_pinned_memory():
    pinned = torch.ones(4).pin_memory()
    results = pinned[1:], pinned.clone(), pinned + 1
    return [result.is_pinned() for result in results]


@gpus(2)
def dlpack_of_the_other_gpu_is_refused():
    x = torch.ones(2, device="cuda:1")
    return raised(lambda: torch.from_dlpack(x))


@gpus(2)
def files_of_the_other_gpu():
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda:1"), file)
    loaded = []
    for target in (None, "cuda", {"cuda:1": "cuda:0"}, "cpu"):
        file.seek(0)
        loaded.append(torch.load(file, map_location=target))
    return places(*loaded)


def a_storage_of_another_device_is_refused():
    x = torch.ones(2, device="cuda")
    y = torch.ones(2)
    return errors(
        lambda: x.set_(y.untyped_storage()),
        lambda: y.set_(x.untyped_storage()),
        lambda: y.set_(x),
    )


def the_array_interface_refuses_gradients():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: w.__cuda_array_interface__)


def a_file_is_loaded_elsewhere():
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), file)
    targets = "cpu", "cuda", torch.device("cpu"), {"cuda:0": "cpu"}, {"cuda:7": "cpu"}
    loaded = []
    for target in targets:
        file.seek(0)
        loaded.append(torch.load(file, map_location=target))
    return places(*loaded)


def data_of_the_gpu_cannot_be_pinned():
    data = TensorDataset(torch.arange(4.0, device="cuda"))
    loader = DataLoader(data, batch_size=2, pin_memory=True)
    return raised(lambda: next(iter(loader)))


def a_generator_of_the_gpu_cannot_shuffle():
    loader = DataLoader([1, 2, 3], shuffle=True, generator=torch.Generator("cuda"))
    return raised(lambda: next(iter(loader)))


def a_list_of_gpu_vectors_is_refused():
    return raised(lambda: torch.tensor([torch.ones(2, device="cuda")] * 2))
