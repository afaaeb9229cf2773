"""Autocast: the types of results, beyond the tables of PyTorch's documentation."""

import torch
import torch.nn.functional as F
from torch import nn

from fidelity.helpers import errors, raised


def softmax_and_normalisation_are_of_single_precision():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        results = [
            x.softmax(0),
            F.log_softmax(x, 0),
            F.layer_norm(x, (4,)),
            F.gelu(x),
            F.softplus(x),
            nn.BatchNorm1d(4).cuda()(x),
            F.group_norm(x, 1),
        ]
    return [str(result.dtype) for result in results]


def other_operations_keep_their_type():
    x = torch.ones(4, 4, device="cuda", dtype=torch.float16)
    with torch.autocast("cuda"):
        results = [
            x + 1,
            x.relu(),
            x.mean(),
            x.max(),
            x.T,
            x.sigmoid(),
            F.dropout(x),
            x.double() * 2,
        ]
    return [str(result.dtype) for result in results]


def types_that_do_not_meet():
    x = torch.ones(2, 2, device="cuda")
    with torch.autocast("cuda"):
        return [
            raised(lambda: torch.atan2(x.bfloat16(), x)),
            raised(lambda: x.long() @ x.long()),
            str((x + x).dtype),
            str(x.exp_().dtype),
        ]


def in_place_and_into_a_result_are_not_cast():
    x = torch.ones(2, 2, device="cuda")
    y = x.half()
    with torch.autocast("cuda"):
        return errors(lambda: torch.mm(x, y, out=x), lambda: x.addmm_(x, y))
