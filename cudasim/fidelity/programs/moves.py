"""Moves: what is copied, what is returned as it is, what is refused."""

import copy

import numpy as np
import torch

from fidelity.asking import places, raised


def every_spelling_of_a_move():
    x = torch.ones(2)
    there = torch.ones(1, device="cuda")
    moved = [
        x.cuda(),
        x.cuda(0),
        x.to("cuda"),
        x.to(0),
        x.to(there),
        x.to(device="cuda:0"),
    ]
    return places(*moved)


def a_tensor_that_is_there_already_is_returned():
    x = torch.ones(2, device="cuda")
    return (
        x.cuda() is x,
        x.cuda(0) is x,
        x.to("cuda") is x,
        x.to("cuda:0") is x,
        x.to(x) is x,
    )


def on_the_cpu_too():
    x = torch.ones(2)
    return x.cpu() is x, x.to("cpu") is x, x.cuda().cpu() is x


def a_copy_may_be_asked_for():
    x = torch.ones(2, device="cuda")
    y = x.to("cuda", copy=True)
    return y is x, y.data_ptr() == x.data_ptr(), str(y.device)


def a_copy_is_independent():
    x = torch.ones(2)
    y = x.cuda()
    x.zero_()
    y += 1
    return x.tolist(), y.tolist()


def device_and_type_change_together():
    x = torch.ones(2).to("cuda", torch.float16)
    y = x.to(torch.ones(1, dtype=torch.int64))
    return str(x.device), str(x.dtype), str(y.device), str(y.dtype)


def another_type_is_a_copy_on_the_same_device():
    x = torch.ones(2, device="cuda")
    return places(x.half(), x.double(), x.int(), x.to(torch.bool)), x.float() is x


def types_of_old_name_a_device():
    x = torch.ones(2)
    return places(x.type("torch.cuda.FloatTensor"), x.cuda().type("torch.FloatTensor"))


def a_class_of_old_moves_too():
    x = torch.ones(2).type(torch.cuda.HalfTensor)
    return str(x.device), str(x.dtype)


def a_type_of_python_is_a_type_of_number():
    x = torch.ones(2, device="cuda")
    moved = (
        x.to(1.5),
        x.to(float),
        x.cpu().to("cuda", int),
        x.to(device="cpu", dtype=bool),
    )
    return places(*moved), [str(each.dtype) for each in moved]


def type_as_goes_where_the_other_tensor_is():
    told = []
    for here, there in (("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")):
        x = torch.ones(2, device=here, requires_grad=True)
        y = x.type_as(torch.ones(3, device=there, dtype=torch.float64))
        y.sum().backward()
        told.append([*places(y, x.grad), str(y.dtype), x.type_as(x) is x])
    return told, raised(lambda: torch.ones(2).type_as("cuda"))


def moves_that_do_not_block_have_the_same_values():
    x = torch.arange(4).pin_memory().to("cuda", non_blocking=True)
    y = x.to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return x.tolist(), y.tolist(), str(y.device)


def copy_keeps_device_and_type_of_its_target():
    target = torch.zeros(3, dtype=torch.int64, device="cuda")
    returned = target.copy_(torch.tensor([1.5, 2.5, 3.5]))
    return repr(target), returned is target


def copy_home():
    target = torch.zeros(3)
    target.copy_(torch.ones(3, device="cuda"), non_blocking=False)
    return repr(target)


def copy_spreads_its_source():
    return torch.zeros(2, 3, device="cuda").copy_(torch.arange(3.0)).tolist()


def copy_of_the_wrong_shape():
    return raised(lambda: torch.zeros(3, device="cuda").copy_(torch.ones(2)))


def strides_survive_a_move():
    x = torch.arange(6).reshape(2, 3)
    image = torch.empty(1, 2, 3, 4).to(memory_format=torch.channels_last)
    return [list(y.cuda().stride()) for y in (x, x.T, image)]


def a_spread_tensor_is_written_out_by_a_move():
    x = torch.ones(1, 3).expand(4, 3).cuda()
    return list(x.stride()), x.untyped_storage().nbytes()


def a_view_takes_no_more_along_than_it_shows():
    x = torch.zeros(1000, 2)[5].cuda()
    return x.untyped_storage().nbytes(), x.storage_offset()


def a_format_may_be_asked_for():
    x = torch.ones(1, 2, 3, 4).to("cuda", memory_format=torch.channels_last)
    return list(x.stride())


def a_moved_leaf_is_no_leaf():
    w = torch.ones(2, requires_grad=True)
    moved = w.cuda()
    return moved.is_leaf, moved.requires_grad, w.cpu() is w


def a_move_without_gradients_is_a_leaf():
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        moved = w.cuda()
    return moved.is_leaf, moved.requires_grad


def numpy_refuses_a_gpu_tensor():
    x = torch.ones(2, device="cuda")
    return raised(x.numpy), raised(lambda: np.asarray(x)), raised(lambda: np.add(x, 1))


def numpy_takes_a_gpu_tensor_by_force():
    return torch.ones(2, device="cuda", requires_grad=True).numpy(force=True).tolist()


def numpy_of_a_tensor_that_needs_a_gradient():
    return raised(torch.ones(2, device="cuda", requires_grad=True).numpy)


def numpy_refuses_a_single_number_too():
    return raised(lambda: np.array(torch.tensor(1.0, device="cuda")))


def lists_and_numbers_come_home_by_themselves():
    x = torch.arange(4, device="cuda").reshape(2, 2)
    return x.tolist(), x[0, 1].item(), len(x), [row.tolist() for row in x]


def deep_copies_stay_and_share_nothing():
    x = torch.ones(2, device="cuda")
    y = copy.deepcopy(x)
    return str(y.device), x.data_ptr() == y.data_ptr()


def shallow_copies_share():
    x = torch.ones(2, device="cuda")
    y = copy.copy(x)
    return y is x, y.data_ptr() == x.data_ptr()


def clones_stay():
    x = torch.ones(2, device="cuda")
    return places(x.clone(), x.detach(), x.contiguous()), x.contiguous() is x


def data_may_be_that_of_another_device():
    x, weight = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    x.data, weight.data = x.cuda(), weight.data.cuda()
    return places(x, weight), weight.is_leaf


def to_meta_and_back():
    meta = torch.ones(2, device="cuda").to("meta")
    return (
        str(meta.device),
        raised(lambda: meta.cuda()),
        raised(lambda: meta.to("cuda:0")),
    )


def a_move_to_a_gpu_that_is_not_there():
    x = torch.ones(2)
    return raised(lambda: x.cuda(99)), raised(lambda: x.to("cuda:99"))


def a_move_to_what_is_no_device():
    x = torch.ones(2)
    targets = ["gpu", 1.5, [0], np.float32]
    return [raised(lambda target=target: x.to(target)) for target in targets]


def a_move_to_nowhere():
    x = torch.ones(2, device="cuda")
    return raised(lambda: x.to()), raised(lambda: x.to(None))


def cuda_wants_a_gpu():
    x = torch.ones(2)
    return (
        raised(lambda: x.cuda("cpu")),
        raised(lambda: x.cuda(-1)),
        raised(lambda: x.cuda(1.5)),
    )


def pinned_memory_is_the_hosts():
    x = torch.ones(2)
    pinned = x.pin_memory()
    return (
        str(pinned.device),
        x.is_pinned(),
        pinned.is_pinned(),
        pinned.pin_memory() is pinned,
    )


def pinned_memory_is_asked_for_when_it_is_made():
    return torch.empty(2, pin_memory=True).is_pinned(), torch.empty(2).is_pinned()


def views_and_copies_of_pinned_memory():
    pinned = torch.ones(4).pin_memory()
    return pinned[1:].is_pinned(), pinned.clone().is_pinned(), (pinned + 1).is_pinned()


def a_gpu_tensor_is_not_pinned():
    x = torch.ones(2, device="cuda")
    return x.is_pinned(), raised(x.pin_memory)


def complex_and_boolean_values_arrive():
    z = torch.tensor([1 + 2j]).cuda()
    return str(z.cpu().tolist()), torch.tensor([True, False]).cuda().tolist()
