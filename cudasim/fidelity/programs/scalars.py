"""Single numbers: which may ride along to another device, and which may not."""

import math
import operator

import numpy as np
import torch

from fidelity.asking import places, raised


def a_number_of_the_cpu_may_ride_along():
    x, two = torch.ones(3, device="cuda"), torch.tensor(2.0)
    return repr(x * two), repr(two * x), repr(two - x)


def a_vector_of_one_number_may_not():
    x = torch.ones(3, device="cuda")
    return raised(lambda: x * torch.tensor([2.0])), raised(
        lambda: torch.tensor([2.0]) * x
    )


def a_number_on_the_gpu_may_not_ride_to_the_cpu():
    two = torch.tensor(2.0, device="cuda")
    return raised(lambda: torch.ones(3) * two), raised(lambda: two * torch.ones(3))


def two_numbers_meet_on_the_gpu():
    x, y = torch.tensor(1.0, device="cuda"), torch.tensor(2.0)
    return repr(x + y), repr(y + x)


def a_number_of_the_cpu_is_not_written_to():
    x, total = torch.ones(3, device="cuda"), torch.tensor(0.0)
    return raised(lambda: total.add_(x.sum())), raised(
        lambda: operator.iadd(total, x[0])
    )


def a_number_of_the_cpu_is_added_in_place():
    x = torch.ones(2, device="cuda")
    x += torch.tensor(2.0)
    return repr(x)


def a_number_of_the_cpu_in_a_comparison():
    x = torch.arange(3, device="cuda")
    return repr(x > torch.tensor(1)), repr(torch.tensor(1) == x)


def a_number_of_the_cpu_among_three_operands():
    x, two = torch.ones(2, device="cuda"), torch.tensor(2.0)
    return [
        repr(torch.where(x > 0, two, x)),
        repr(torch.lerp(x, x, two)),
        repr(torch.addcmul(x, x, two)),
        repr(x.clamp(min=two)),
    ]


def a_condition_of_one_number_on_the_cpu():
    x = torch.ones(2, device="cuda")
    return raised(lambda: torch.where(torch.tensor(True), x, x))


def a_number_of_the_cpu_in_a_product():
    x = torch.ones(2, 2, device="cuda")
    return raised(lambda: torch.addmm(torch.tensor(1.0), x, x)), raised(
        lambda: x @ torch.tensor(1.0)
    )


def numbers_are_not_joined_across_devices():
    x, y = torch.tensor(1.0, device="cuda"), torch.tensor(1.0)
    return raised(lambda: torch.stack([x, y])), raised(lambda: torch.stack([y, x]))


def types_are_promoted_across_devices():
    x = torch.ones(1, dtype=torch.float16, device="cuda")
    whole = torch.ones(1, dtype=torch.int32, device="cuda")
    return [
        str((x * torch.tensor(2.0, dtype=torch.float64)).dtype),
        str((whole * torch.tensor(2.0)).dtype),
        str((whole * torch.tensor(2)).dtype),
        str((whole / 2).dtype),
    ]


def filling_from_the_cpu():
    x = torch.zeros(2, device="cuda")
    return repr(x.fill_(torch.tensor(2.0))), repr(
        x.masked_fill(x > 0, torch.tensor(3.0))
    )


def filling_from_the_gpu():
    y = torch.zeros(2)
    return raised(lambda: y.fill_(torch.tensor(2.0, device="cuda"))), y.tolist()


def filling_a_masked_part_from_the_gpu():
    y = torch.ones(2)
    return raised(lambda: y.masked_fill(y > 0, torch.tensor(3.0, device="cuda")))


def filling_by_index():
    x, index = torch.zeros(2, device="cuda"), torch.tensor([0], device="cuda")
    return repr(x.index_fill(0, index, torch.tensor(1.0))), repr(
        x.scatter(0, index, 2.0)
    )


def python_reads_numbers_of_the_gpu():
    two = torch.tensor(2, device="cuda")
    return (
        int(two),
        float(two),
        bool(two),
        two.item(),
        math.sqrt(two),
        "abc"[two],
        list(range(two)),
    )


def several_numbers_are_not_one():
    x = torch.ones(2, device="cuda")
    return raised(lambda: bool(x)), raised(lambda: float(x)), raised(lambda: x.item())


def an_empty_tensor_is_no_number():
    return raised(lambda: torch.empty(0, device="cuda").item())


def numbers_of_numpy():
    x = torch.ones(2, device="cuda")
    return (
        raised(lambda: x * np.float32(2)),
        repr(x * np.float64(2)),
        repr(x + np.int64(1)),
    )


def powers():
    x = torch.arange(3.0, device="cuda")
    return repr(x ** torch.tensor(2.0)), repr(torch.tensor(2.0) ** x), repr(2**x)


def results_of_reductions_stay():
    x = torch.ones(2, 3, device="cuda")
    return places(x.sum(), x.max(), x.mean(0), x.argmax(), x.all(), x.max(1).indices)
