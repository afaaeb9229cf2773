"""Loading data: pinned batches, generators, and batches of GPU tensors."""

import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate, random_split

from fidelity.asking import places, raised, warned


def batches_are_pinned():
    data = TensorDataset(torch.arange(4.0), torch.arange(4))
    x, y = next(iter(DataLoader(data, batch_size=2, pin_memory=True)))
    return x.is_pinned(), y.is_pinned(), places(x, y), places(x.cuda(non_blocking=True))


def batches_are_not_pinned_unasked():
    (x,) = next(iter(DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2)))
    return x.is_pinned(), str(x.device)


def containers_are_pinned():
    data = [{"x": torch.ones(1), "name": "one", "pair": (1, torch.ones(1))}] * 2
    batch = next(iter(DataLoader(data, batch_size=2, pin_memory=True)))
    return (
        batch["x"].is_pinned(),
        batch["name"],
        [part.is_pinned() for part in batch["pair"]],
    )


def an_object_pins_itself():
    class Batch(list):
        def pin_memory(self):
            return "pinned"

    loader = DataLoader([1, 2], batch_size=2, pin_memory=True, collate_fn=Batch)
    return next(iter(loader))


def data_of_the_gpu_makes_batches_of_the_gpu():
    data = TensorDataset(torch.arange(4.0, device="cuda"))
    (x,) = next(iter(DataLoader(data, batch_size=2)))
    return repr(x)


def data_of_the_gpu_cannot_be_pinned():
    data = TensorDataset(torch.arange(4.0, device="cuda"))
    return raised(lambda: next(iter(DataLoader(data, batch_size=2, pin_memory=True))))


def examples_of_two_devices():
    return raised(
        lambda: default_collate([torch.ones(1), torch.ones(1, device="cuda")])
    )


def numbers_of_the_gpu_are_collated():
    return repr(
        default_collate(
            [torch.tensor(1.0, device="cuda"), torch.tensor(2.0, device="cuda")]
        )
    )


def a_generator_of_the_gpu_cannot_shuffle():
    loader = DataLoader([1, 2, 3], shuffle=True, generator=torch.Generator("cuda"))
    return raised(lambda: next(iter(loader)))


def shuffling_under_a_default_device():
    def load():
        torch.set_default_device("cuda")
        try:
            next(iter(DataLoader([1, 2, 3], shuffle=True)))
        finally:
            torch.set_default_device(None)

    return raised(load)


def splitting_with_a_generator_of_the_gpu():
    return raised(
        lambda: random_split(range(4), [2, 2], generator=torch.Generator("cuda"))
    )


def an_option_of_old_warns():
    def load():
        next(iter(DataLoader([1, 2], pin_memory=True, pin_memory_device="cuda")))

    return warned(load)
