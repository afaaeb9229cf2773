"""What only two GPUs can show."""

import copy
import io

import torch
from torch.cuda import comm

from fidelity.asking import gpus, places, raised


@gpus(2)
def adding():
    x, y = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    return raised(lambda: x + y), raised(lambda: y + x), raised(lambda: x.add_(y))


@gpus(2)
def products():
    x, y = torch.ones(2, 2, device="cuda:0"), torch.ones(2, 2, device="cuda:1")
    return (
        raised(lambda: x @ y),
        raised(lambda: y @ x),
        raised(lambda: torch.dot(x[0], y[0])),
    )


@gpus(2)
def joining():
    x, y = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    return raised(lambda: torch.cat([x, y])), raised(lambda: torch.stack([y, x]))


@gpus(2)
def indexing():
    x = torch.ones(3, device="cuda:0")
    index = torch.tensor([0], device="cuda:1")
    return raised(lambda: x[index]), raised(lambda: x.index_select(0, index))


@gpus(2)
def convolving():
    layer = torch.nn.Conv2d(1, 1, 3, device="cuda:1")
    return raised(lambda: layer(torch.ones(2, 1, 5, 5, device="cuda:0")))


@gpus(2)
def numbers_do_not_ride_along():
    x, two = torch.ones(3, device="cuda:0"), torch.tensor(2.0, device="cuda:1")
    return raised(lambda: x * two), raised(lambda: two * x)


@gpus(2)
def a_number_of_the_other_gpu_fills():
    two, x = torch.tensor(2.0, device="cuda:0"), torch.zeros(2, device="cuda:1")
    return (
        repr(x.fill_(two)),
        repr(x.masked_fill(x > 0, two + 1)),
        repr(torch.fill(x, two)),
    )


@gpus(2)
def three_devices():
    x, y = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    return raised(lambda: torch.addcmul(torch.ones(2), x, y)), raised(
        lambda: torch.cat([y, x, torch.ones(2)])
    )


@gpus(2)
def moving():
    x = torch.ones(2, device="cuda:0")
    y = x.to("cuda:1")
    moved = y.cuda(), y.to(x), y.to("cuda"), x.type_as(y), y.type_as(x)
    return repr(y), y.cuda(1) is y, y.cuda() is y, places(*moved)


@gpus(2)
def copying():
    x, y = torch.ones(2, device="cuda:0"), torch.zeros(2, device="cuda:1")
    y.copy_(x)
    return repr(y), repr(copy.deepcopy(y))


@gpus(2)
def plain_cuda_is_the_current_gpu():
    x = torch.ones(1, device="cuda:0")
    with torch.cuda.device(1):
        return places(
            torch.ones(1, device="cuda"), torch.ones(1).cuda(), x.to("cuda"), x + 1
        )


@gpus(2)
def results_live_where_their_operands_do():
    y = torch.ones(2, device="cuda:1")
    return places(
        y + 1, y.sum(), torch.zeros_like(y), y.new_ones(1)
    ), torch.cuda.current_device()


@gpus(2)
def a_default_device_with_an_index():
    with torch.device("cuda:1"):
        return repr(torch.ones(2)), torch.cuda.current_device()


@gpus(2)
def what_is_made_of_old_stays_on_its_gpu():
    x, there = torch.ones(1, device="cuda:0"), torch.ones(1, device="cuda:1")
    moved = there.type(torch.float64), there.type(torch.cuda.DoubleTensor)
    return places(x.new([1]), x.new([1], device="cuda:1"), *moved)


@gpus(2)
def storages():
    x = torch.arange(4.0).untyped_storage().cuda(1)
    moved = [str(each.device) for each in (x, x.cuda(0), x.to(device="cuda"), x.cpu())]
    made = [
        torch.UntypedStorage(4, device="cuda:1"),
        torch.TypedStorage([1], device="cuda:1"),
    ]
    return moved, x.cuda(1) is x, x.get_device(), [str(each.device) for each in made]


@gpus(2)
def a_storage_of_the_other_gpu_is_refused():
    x = torch.ones(2, device="cuda:0")
    return raised(lambda: torch.empty(0, device="cuda:1").set_(x.untyped_storage()))


@gpus(2)
def dlpack_of_the_other_gpu_is_refused():
    x = torch.ones(2, device="cuda:1")
    return raised(lambda: torch.from_dlpack(x))


@gpus(2)
def files():
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda:1"), file)
    loaded = []
    for target in (None, "cuda", {"cuda:1": "cuda:0"}, "cpu"):
        file.seek(0)
        loaded.append(torch.load(file, map_location=target))
    return places(*loaded)


@gpus(2)
def broadcasting():
    return places(*comm.broadcast(torch.ones(2, device="cuda:0"), [0, 1]))


@gpus(2)
def scattering_and_gathering():
    parts = comm.scatter(torch.arange(4), [0, 1])
    return [repr(part) for part in parts], repr(comm.gather(parts, destination=1))


@gpus(2)
def adding_up():
    parts = [torch.ones(2, device=f"cuda:{i}") for i in (0, 1)]
    return repr(comm.reduce_add(parts, destination=0))


@gpus(2)
def peers():
    return torch.cuda.can_device_access_peer(0, 0), torch.cuda.device_count() >= 2


@gpus(2)
def what_cannot_be_spread_or_gathered():
    x = torch.arange(4.0, device="cuda:0")
    return [
        raised(lambda: comm.broadcast(x, out=[x.cpu()])),
        raised(lambda: comm.broadcast(x, out=[x[:1]])),
        raised(lambda: comm.broadcast_coalesced([x], [1, 0])),
        raised(lambda: comm.scatter(x, [0, 1], [4])),
        raised(lambda: comm.scatter(x, out=[x[None]])),
        raised(lambda: comm.scatter(x, out=[x[:3]])),
        raised(lambda: comm.gather([x, x.cpu()])),
        raised(lambda: comm.scatter(x, [])),
    ]
