"""Sparse tensors: printed, moved, refused."""

import torch

from fidelity.asking import places, raised


def sparse_tensors_print():
    return repr(torch.eye(2, device="cuda").to_sparse())


def compressed_tensors_print():
    return repr(torch.eye(2, device="cuda").to_sparse_csr())


def the_parts_are_on_the_gpu():
    x = torch.eye(2, device="cuda").to_sparse()
    return places(x, x.indices(), x.values(), x.to_dense(), x.coalesce()), x.is_cuda


def sparse_tensors_move():
    x = torch.eye(2).to_sparse()
    there = x.cuda()
    return places(there, there.cpu(), there.values()), there.cuda() is there


def parts_of_two_devices():
    index, value = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, device="cuda")
    made = torch.sparse_coo_tensor(index, value, (2,), device="cuda")
    return str(made.device), raised(lambda: torch.sparse_coo_tensor(index, value, (2,)))


def sums_of_two_devices():
    x = torch.eye(2, device="cuda").to_sparse()
    return [
        raised(lambda: x + torch.eye(2).to_sparse()),
        raised(lambda: torch.eye(2) + x),
        raised(lambda: torch.eye(2, device="cuda") + x.cpu()),
    ]


def products_of_two_devices():
    x = torch.eye(2, device="cuda").to_sparse()
    return [
        raised(lambda: torch.sparse.mm(x, torch.eye(2))),
        raised(lambda: x.cpu() @ torch.eye(2, device="cuda")),
    ]


def products_stay():
    x = torch.eye(2, device="cuda").to_sparse()
    return repr(x @ torch.ones(2, 2, device="cuda"))
