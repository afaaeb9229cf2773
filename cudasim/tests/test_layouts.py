"""How results lie in memory, where CUDA's kernels and the CPU's differ.

What is expected comes from CUDA's sources in aten/src/ATen/native of PyTorch, named at each.
"""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("two_gpus")


def image(*shape, device="cuda"):
    """Return an image whose channels are the fastest dimension in memory."""
    numbers = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    return numbers.to(device).contiguous(memory_format=last)


def keeps_channels_last(result):
    if result.dim() == 5:
        return result.is_contiguous(memory_format=torch.channels_last_3d)
    return result.is_contiguous(memory_format=torch.channels_last)


def unpool(device):
    small, places = F.max_pool2d(
        image(2, 4, 6, 6, device=device), 2, None, 0, 1, False, True
    )
    return F.max_unpool2d(small, places, 2)


def pad(device, mode):
    return F.pad(image(2, 4, 6, 6, device=device), (1, 2, 1, 1), mode)


def pad_volume(device, mode):
    return F.pad(image(2, 4, 5, 5, 5, device=device), (1, 1, 1, 2, 1, 1), mode)


def resize(device, mode, channels):
    return F.interpolate(image(2, channels, 6, 6, device=device), (9, 9), mode=mode)


def resize_volume(device, mode):
    return F.interpolate(image(2, 3, 4, 4, 4, device=device), (6, 6, 6), mode=mode)


CONTIGUOUS = {
    "reflect": lambda device: pad(device, "reflect"),  # cuda/ReflectionPad.cu
    "replicate": lambda device: pad(device, "replicate"),  # ReplicationPadding.cpp
    "reflect 3d": lambda device: pad_volume(device, "reflect"),
    "replicate 3d": lambda device: pad_volume(device, "replicate"),
    "max_unpool2d": unpool,  # cuda/MaxUnpooling.cu
    # `math_channel_shuffle` of ChanelShuffle.cpp
    "channel_shuffle": lambda device: F.channel_shuffle(
        image(2, 4, 6, 6, device=device), 2
    ),
    # `math_pixel_shuffle` and `math_pixel_unshuffle` of PixelShuffle.cpp
    "pixel_shuffle": lambda device: F.pixel_shuffle(
        image(2, 16, 3, 3, device=device), 2
    ),
    "pixel_unshuffle": lambda device: F.pixel_unshuffle(
        image(2, 4, 6, 6, device=device), 2
    ),
    # cuda/TensorTransformations.cu
    "roll": lambda device: image(2, 4, 6, 6, device=device).roll(1, 3),
    # group_norm.cpp
    "group_norm": lambda device: F.group_norm(image(2, 4, 6, 6, device=device), 2),
}
CHANNELS_LAST = {
    # The kernels read and write images with few channels in another order, and leave the
    # layout to the meta function that they share with the CPU (UpSampleNearest2d.cpp etc.).
    "nearest": lambda device: resize(device, "nearest", 3),
    "bilinear": lambda device: resize(device, "bilinear", 3),
    "bicubic": lambda device: resize(device, "bicubic", 3),
    "trilinear": lambda device: resize_volume(device, "trilinear"),
    # PadNd.cpp, DilatedMaxPool2d.cpp
    "constant": lambda device: pad(device, "constant"),
    "max_pool2d": lambda device: F.max_pool2d(image(2, 4, 6, 6, device=device), 2),
    # cuda/Activation.cpp
    "logsigmoid": lambda device: F.logsigmoid(image(2, 4, 6, 6, device=device)),
}


@pytest.mark.parametrize("name", CONTIGUOUS)
def test_results_that_are_contiguous_on_cuda_alone(name):
    work = CONTIGUOUS[name]
    on_host, on_gpu = work("cpu"), work("cuda")
    assert keeps_channels_last(on_host)
    assert on_gpu.is_contiguous()
    torch.testing.assert_close(on_gpu.cpu(), on_host)


@pytest.mark.parametrize("name", CHANNELS_LAST)
def test_results_that_keep_the_channels_last(name):
    on_gpu = CHANNELS_LAST[name]("cuda")
    assert keeps_channels_last(on_gpu)
    assert not on_gpu.is_contiguous()


def test_group_norm_keeps_a_contiguous_copy_for_backward():
    x = image(2, 4, 64, 64).requires_grad_()
    before = torch.cuda.memory_allocated()
    result = F.group_norm(x, 2)
    held = torch.cuda.memory_allocated() - before
    means_and_deviations = 2 * 512  # the smallest blocks
    assert held == 2 * x.nbytes + means_and_deviations
    result.sum().backward()
    assert x.grad.stride() == x.stride()


def test_factors_of_a_matrix():
    """See `svd_uses_cusolver` and `linalg_eig_out_info` of BatchLinearAlgebra.cpp."""
    matrix = torch.tensor(
        [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 5.0], [1.0, 0.0, 0.0]]
    )
    left, values, right = torch.linalg.svd(matrix.cuda(), full_matrices=False)
    assert left.stride() == (1, 4)  # column by column
    assert right.stride() == (3, 1)  # row by row
    torch.testing.assert_close((left * values @ right).cpu(), matrix)
    assert torch.linalg.svd(matrix, full_matrices=False).Vh.stride() == (1, 3)
    assert torch.linalg.eig(matrix[:3].cuda()).eigenvectors.stride() == (3, 1)


def test_places_of_numbers_that_are_not_zero():
    """See `nonzero_static_cuda` of cuda/Nonzero.cu."""
    places = torch.nonzero_static(torch.eye(3, 4, device="cuda"), size=3)
    assert places.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert places.stride() == (1, 3)


def test_transforms_lay_out_the_dimensions_that_they_transform():
    """See `_exec_fft` and `_fft_r2c_cufft` of cuda/SpectralOps.cpp.

    cuFFT transforms adjacent dimensions. Those that are not transformed go in front in
    memory, and those that are follow in the order in which they were transformed. Of three
    dimensions the last becomes complex by itself, and lies in front of the others then.
    """
    x = torch.arange(5 * 6 * 7.0).reshape(5, 6, 7)
    along_first = torch.fft.fft(x.cuda(), dim=0)
    assert along_first.stride() == (1, 7 * 5, 5)
    of_all = torch.fft.rfftn(x.cuda())
    assert of_all.stride() == (6, 1, 5 * 6)
    torch.testing.assert_close(along_first.cpu(), torch.fft.fft(x, dim=0))
    torch.testing.assert_close(of_all.cpu(), torch.fft.rfftn(x))


def test_a_gradient_of_dropout_is_contiguous():
    """See `dropout_backward_cuda` of cuda/Dropout.cu."""
    x = torch.ones(3, 4, device="cuda").t().requires_grad_()
    strides = []
    x.register_hook(lambda gradient: strides.append(gradient.stride()))
    dropped = F.dropout(x, 0.5)
    dropped.backward(torch.ones(3, 4, device="cuda").t())
    assert dropped.stride() == (1, 4)
    assert strides == [(3, 1)]
