"""Types and sizes that CUDA's kernels take or refuse, and what they compute otherwise."""

import torch
import torch.nn.functional as F
from torch import nn

from fidelity.asking import beginning, gpus, raised

GPU = {"device": "cuda"}
LONG, HALF = {"dtype": torch.int64, **GPU}, {"dtype": torch.float16, **GPU}


def whole_numbers_are_not_multiplied():
    x, short = torch.ones(2, 2, **LONG), torch.ones(2, 2, dtype=torch.int32, **GPU)
    return [
        raised(lambda: x @ x[0]),
        raised(lambda: torch.addmm(short[0], short, short)),
        raised(lambda: torch.sparse.mm(x.to_sparse(), x)),
        raised(lambda: x.to_sparse() @ x),
    ]


def long_numbers_are_not_convolved():
    x = torch.ones(1, 1, 3, 3, **LONG)
    return beginning(lambda: F.conv2d(x, x))


def shapes_are_refused_before_types():
    x = torch.ones(2, 3, **LONG)
    return raised(lambda: x @ x)


def what_is_refused_in_place_is_unchanged():
    x = torch.ones(2, 2, **LONG)
    return raised(lambda: x.addmm_(x, x)), x.tolist()


def what_is_not_computed_in_half_precision():
    x = torch.ones(6, **HALF)
    return [
        raised(lambda: torch.igamma(x, x)),
        raised(lambda: F.layer_norm(x, (6,), torch.ones(6, **GPU))),
        raised(lambda: F.group_norm(x[None], 2, torch.ones(6, **GPU))),
        raised(lambda: torch.fft.fft(x)),
        raised(lambda: torch.fft.rfft(x)),
    ]


def a_histogram_of_two_dimensions():
    return beginning(lambda: torch.histogramdd(torch.ones(3, 2, **GPU), [2, 2]))


def products_of_bytes_have_sizes():
    x = torch.ones(32, 16, dtype=torch.int8, **GPU)
    return [
        raised(lambda: torch._int_mm(x[:4], x[:16, :8].contiguous())),
        raised(lambda: torch._int_mm(x, x[:16, :12].contiguous())),
        torch._int_mm(x, x[:16, :8].contiguous()).sum().item(),
    ]


def networks_are_quantized_on_the_cpu_alone():
    net = nn.Sequential(nn.Linear(4, 4)).cuda()
    return beginning(lambda: torch.ao.quantization.quantize_dynamic(net))


def functions_of_python_are_applied_on_the_cpu_alone():
    x = torch.ones(2, **GPU)
    other = raised(lambda: x.cpu().map_(x, max)).partition(":")[0]
    return raised(lambda: x.apply_(abs)), raised(lambda: x.map_(x, max)), other


def classes_of_the_cpu_take_no_tensor_of_a_gpu():
    x = torch.ones(2, **GPU)
    made = (
        raised(lambda: x.cpu().new(x)).partition(":")[0],
        str(torch.cuda.FloatTensor(x).device),
    )
    return (
        beginning(lambda: torch.FloatTensor(x)),
        beginning(lambda: torch.LongTensor(x)),
        made,
    )


def what_the_cpu_does_not_compute_in_half_precision():
    x = torch.arange(1.0, 9.0).reshape(2, 2, 2)
    calls = [
        lambda x: F.avg_pool3d(x[None, None], 2),
        lambda x: torch.polygamma(1, x),
        lambda x: torch.fft.fft(x),
        lambda x: torch.fft.rfft(x),
        lambda x: torch.fft.irfft(x, 2),
    ]
    found = [(call(x.cuda().half()).cpu(), call(x)) for call in calls]
    return [
        (str(y.dtype), torch.allclose(y.to(z.dtype), z, 1e-2, 1e-2)) for y, z in found
    ]


def what_the_cpu_does_not_compute_of_complex_numbers():
    x = torch.tensor([1 + 2j, -3 + 0.5j])
    calls = [lambda x: x.exp(), lambda x: x.angle(), lambda x: x.clone().sqrt_()]
    found = [(call(x.cuda().to(torch.complex32)).cpu(), call(x)) for call in calls]
    sums = x.cuda().nansum(), (x * torch.nan).cuda().nansum()
    return [
        [
            (str(y.dtype), torch.allclose(y.to(z.dtype), z, 1e-2, 1e-2))
            for y, z in found
        ],
        [str(each.cpu()) for each in sums],
    ]


def what_the_cpu_does_not_compute_of_whole_numbers_and_booleans():
    x, truth = torch.tensor([0, 1, 2], **GPU), torch.ones(2, 2, dtype=torch.bool, **GPU)
    return repr(torch.histc(x, 3, 0, 3)), repr(truth.abs()), repr(truth.trace())


def a_gradient_in_half_precision_comes_back_through_an_fft():
    x = torch.ones(4, requires_grad=True, **HALF)
    torch.fft.rfft(x).abs().sum().backward()
    return str(x.grad.dtype), str(x.grad.device)


def whole_numbers_are_divided_by_zero():
    told = []
    for kind in (torch.int64, torch.int32, torch.uint8):
        x, y = (torch.tensor(values, dtype=kind, **GPU) for values in ([7, 8], [0, 3]))
        quotients = x // y, torch.div(x, y, rounding_mode="trunc"), x // 0, 7 // y
        rests = x % y, torch.fmod(x, y)
        told.append(
            [each.tolist() for each in (*quotients, *rests, x.floor_divide_(y), x)]
        )
    return told


def a_remainder_of_zero_stays():
    x = torch.tensor([7, 8], **GPU)
    return str((x % 0).device), raised(lambda: x // torch.ones(2, dtype=torch.int64))


def a_division_by_a_number_is_a_product_with_its_reciprocal():
    told = []
    for kind, wide in (
        (torch.float32,) * 2,
        (torch.float64,) * 2,
        (torch.int32, torch.float32),
    ):
        x = torch.arange(1, 2000, dtype=kind, **GPU)
        y, inverse = x.to(wide, copy=True), 1 / torch.tensor(3, dtype=wide)
        product = y * inverse
        y /= torch.tensor(3.0)
        told.append([torch.equal(x / 3, product), torch.equal(y, product)])
    return told


def matrices_are_decomposed_without_pivots():
    told = []
    for shape in ((2, 3, 4), (2, 4, 3)):
        x = torch.eye(*shape[1:], **GPU) + torch.arange(24.0, **GPU).reshape(shape) / 9
        permutation, lower, upper = torch.linalg.lu(x, pivot=False)
        packed, pivots, info = torch.linalg.lu_factor_ex(x, pivot=False)
        told.append([permutation.numel(), torch.allclose(lower @ upper, x, atol=1e-4)])
        told.append(
            [torch.equal(packed.triu()[:, :3, :], upper.triu()), pivots.tolist()]
        )
        told.append(info.tolist())
    return told


def singular_values_have_drivers():
    x = torch.eye(2, **GPU)
    found = [
        torch.linalg.svdvals(x, driver=name).tolist() for name in ("gesvd", "gesvdj")
    ]
    return found, raised(lambda: torch.linalg.svd(x, driver="x"))


def a_convolution_by_cudnns_name():
    x, weight = (
        torch.ones(1, 1, 3, 3, **GPU),
        torch.ones(1, 1, 2, 2, requires_grad=True, **GPU),
    )
    y = torch.cudnn_convolution(
        x, weight, (0, 0), (1, 1), (1, 1), 1, False, False, False
    )
    y.sum().backward()
    return y.tolist(), weight.grad.tolist()


def libraries_may_be_preferred():
    cuda = torch.backends.cuda
    chosen = [cuda.preferred_linalg_library(name) for name in ("cusolver", "default")]
    chosen += [cuda.preferred_blas_library(name) for name in ("cublaslt", "default")]
    return [str(each) for each in chosen]


@gpus(2)
def each_gpu_has_a_cache_of_plans():
    cache = torch.backends.cuda.cufft_plan_cache
    before, cache[1].max_size = cache.max_size, 3
    told = cache[1].max_size, cache.max_size, cache.clear()
    cache[1].max_size = before
    return told


@gpus(2)
def a_factor_of_a_list_on_the_other_gpu():
    x, two = torch.ones(2, device="cuda:1"), torch.tensor(2.0, device="cuda:0")
    return raised(lambda: torch._foreach_mul([x], two))
