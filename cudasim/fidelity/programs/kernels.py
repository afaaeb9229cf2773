"""What CUDA's kernels refuse, and what they compute in another way than the CPU."""

import torch
import torch.nn.functional as F

from fidelity.helpers import deterministic, errors, raised


def what_is_refused_in_place_is_unchanged():
    x = torch.ones(2, 2, dtype=torch.int64, device="cuda")
    return raised(lambda: x.addmm_(x, x)), x.tolist()


def what_is_not_computed_in_half_precision():
    x = torch.ones(6, dtype=torch.float16, device="cuda")
    return errors(
        lambda: torch.igamma(x, x),
        lambda: F.layer_norm(x, (6,), torch.ones(6, device="cuda")),
        lambda: F.group_norm(x[None], 2, torch.ones(6, device="cuda")),
        lambda: torch.fft.fft(x),
        lambda: torch.fft.rfft(x),
    )


def products_of_bytes_have_sizes():
    x = torch.ones(32, 16, dtype=torch.int8, device="cuda")
    return [
        raised(lambda: torch._int_mm(x[:4], x[:16, :8].contiguous())),
        raised(lambda: torch._int_mm(x, x[:16, :12].contiguous())),
        torch._int_mm(x, x[:16, :8].contiguous()).sum().item(),
    ]


def whole_numbers_are_divided_by_zero():
    rows = []
    for kind in (torch.int64, torch.int32, torch.uint8):
        x = torch.tensor([7, 8], dtype=kind, device="cuda")
        y = torch.tensor([0, 3], dtype=kind, device="cuda")
        results = [
            x // y,
            torch.div(x, y, rounding_mode="trunc"),
            x // 0,
            7 // y,
            x % y,
            torch.fmod(x, y),
            x.floor_divide_(y),
        ]
        rows.append([result.tolist() for result in results])
    return rows


def a_division_by_a_number_is_a_product_with_its_reciprocal():
    equal = []
    for kind in (torch.float32, torch.float64, torch.int32):
        x = torch.arange(1, 2000, dtype=kind, device="cuda")
        quotient = x / 3
        y = x.to(quotient.dtype, copy=True)
        reciprocal = 1 / torch.tensor(3, dtype=quotient.dtype)
        product = y * reciprocal
        y /= torch.tensor(3.0)
        equal.append([torch.equal(quotient, product), torch.equal(y, product)])
    return equal


def counting_in_deterministic_mode():
    x = torch.rand(3, device="cuda")
    places = torch.zeros(3, dtype=torch.int64, device="cuda")
    return [
        deterministic(lambda: torch.histc(x)),
        deterministic(lambda: torch.histc(x.cpu())),
        deterministic(lambda: torch.bincount(places, x)),
        deterministic(lambda: torch.bincount(places)),
    ]


def what_is_deterministic():
    x = torch.rand(3, 3, device="cuda", requires_grad=True)
    image = torch.rand(1, 1, 3, 3, device="cuda", requires_grad=True)
    return [
        deterministic(lambda: x[torch.tensor([0, 0])].sum().backward()),
        deterministic(lambda: F.conv2d(image, image).sum().backward()),
        deterministic(lambda: F.interpolate(image, 4, mode="bilinear")),
        deterministic(x.sort),
    ]


def what_cuda_has_no_kernel_for():
    x = torch.ones(2, 2, dtype=torch.float16, device="cuda")
    return errors(
        lambda: torch.linalg.inv(x),
        lambda: torch.linalg.svd(x),
        lambda: torch.linalg.qr(x),
        lambda: torch.histc(x.bool()),
    )
