"""Sparse tensors: printed, moved, refused."""

import torch

from fidelity.asking import gpus, places, raised


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


@gpus(2)
def every_layout_moves_with_all_its_parts():
    rows, columns = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
    layouts = {
        "coo": ("indices",),
        "csr": rows,
        "bsr": rows,
        "csc": columns,
        "bsc": columns,
    }
    x, told = torch.arange(9.0, device="cuda:1").view(3, 3), {}
    for layout, names in layouts.items():
        blocks = (1, 1) if layout.startswith("b") else None
        sparse = x.to_sparse(
            layout=getattr(torch, f"sparse_{layout}"), blocksize=blocks
        )
        told[layout] = []
        for target in ("cuda:0", "cuda:1", "cpu"):
            before = torch.cuda.memory_allocated(0)
            moved = sparse.to(target)
            grown = torch.cuda.memory_allocated(0) - before  # the indices too
            parts = [getattr(moved, name)() for name in ("values", *names)]
            same = torch.equal(moved.to_dense().cpu(), x.cpu())
            told[layout].append((places(moved, *parts, moved.to_dense()), same, grown))
            del moved, parts
    return told


def every_spelling_of_a_sparse_tensor():
    where, size = {"device": "cuda"}, (2, 2)
    index, value = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0])
    coo, csr, csc = (
        torch.sparse_coo_tensor,
        torch.sparse_csr_tensor,
        torch.sparse_csc_tensor,
    )
    made = [
        coo(index, value, size, **where),
        coo([[0, 1], [1, 0]], value.cuda(), size),  # indices follow
        coo(index.cuda(), value.cuda()),
        coo(indices=index, values=value, size=size, **where),
        coo([[0, 1], [1, 0]], [1.0, 2.0], size, **where),
        coo(size, **where),
        csr([0, 1, 2], [0, 1], [1.0, 2.0], size, **where),
        csc([0, 1, 2], [0, 1], value.cuda()),
        coo(index, value),
    ]
    parts = made[0]._indices(), made[0]._values(), index, value
    return places(*made, *parts), made[0].to_dense().tolist()
