"""Views and storages: who shares memory with whom."""

import torch

from fidelity.asking import places, raised


def views_share_memory_on_a_gpu():
    x = torch.zeros(2, 3, device="cuda")
    views = [x[0], x.T, x.view(-1), x.detach(), x.reshape(3, 2), x[:, 1]]
    start = x.untyped_storage().data_ptr()
    return [view.untyped_storage().data_ptr() == start for view in views], places(
        *views
    )


def writing_to_a_view_writes_to_the_whole():
    x = torch.zeros(2, 3, device="cuda")
    x[0].add_(1)
    x.T[2] = 5
    return x.tolist()


def a_storage_is_on_a_gpu():
    storage = torch.ones(3, device="cuda").untyped_storage()
    return str(storage.device), storage.is_cuda, storage.nbytes(), storage.get_device()


def a_storage_is_moved():
    storage = torch.ones(3, device="cuda").untyped_storage()
    return (
        str(storage.cpu().device),
        str(storage.cpu().cuda().device),
        storage.cuda() is storage,
    )


def a_storage_is_made_on_a_gpu():
    return str(torch.UntypedStorage(8, device="cuda").device)


def a_storage_is_made_of_numbers():
    return torch.UntypedStorage([1, 2, 3], device="cuda").tolist()


def a_part_of_a_storage_keeps_all_of_it():
    storage = torch.UntypedStorage(1000, device="cuda")
    part = storage[10:20]
    told = [part.data_ptr() - storage.data_ptr(), torch.cuda.memory_allocated()]
    del storage
    told.append(torch.cuda.memory_allocated())
    del part
    return [*told, torch.cuda.memory_allocated()]


def a_storage_of_a_type():
    x = torch.arange(4.0, device="cuda")
    storage = x.storage()
    storage[0] = 7
    told = [
        storage.type(),
        str(storage.device),
        storage.is_cuda,
        storage.tolist(),
        x.tolist(),
    ]
    told += [
        isinstance(storage, kind)
        for kind in (torch.cuda.FloatStorage, torch.FloatStorage)
    ]
    return told, str(storage.cpu().device), str(torch.cuda.FloatStorage([1, 2]).device)


def a_tensor_takes_a_storage():
    x, y = torch.arange(4.0, device="cuda"), torch.empty(0, device="cuda")
    y.set_(x.untyped_storage(), 1, (3,), (1,))
    z = torch.empty(0, device="cuda").set_(x)
    return repr(y), z.data_ptr() == x.data_ptr()


def a_tensor_takes_more_than_a_storage_has():
    x = torch.ones(4, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.empty(0, device="cuda").set_(x.untyped_storage(), 0, (1024,), (1,))
    return before, torch.cuda.memory_allocated()


def a_storage_of_another_device_is_refused():
    x, y = torch.ones(2, device="cuda"), torch.ones(2)
    return [
        raised(lambda: x.set_(y.untyped_storage())),
        raised(lambda: y.set_(x.untyped_storage())),
        raised(lambda: y.set_(x)),
    ]


def a_storage_grows():
    x = torch.ones(2, device="cuda")
    x.resize_(4)
    return x.untyped_storage().nbytes(), x[:2].tolist(), str(x.device)


def memory_of_a_gpu_is_shared_as_it_is():
    x = torch.ones(2, device="cuda")
    return x.is_shared(), x.share_memory_() is x, torch.ones(2).is_shared()


def a_network_on_a_gpu_is_shared_as_it_is():
    net = torch.nn.Linear(2, 2).cuda()
    return net.share_memory() is net, str(net.weight.device), net.weight.is_shared()


def the_array_interface():
    interface = torch.ones(2, 3, device="cuda").__cuda_array_interface__
    return (
        sorted(interface),
        interface["shape"],
        interface["typestr"],
        interface["version"],
    )


def the_array_interface_is_that_of_gpu_tensors():
    return raised(lambda: torch.ones(2).__cuda_array_interface__)


def the_array_interface_refuses_gradients():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: w.__cuda_array_interface__)


def dlpack_shares():
    x = torch.zeros(2, device="cuda")
    y = torch.from_dlpack(x)
    y += 1
    return x.tolist(), str(y.device), [int(part) for part in x.__dlpack_device__()]


def dlpack_copies_where_it_is_asked_to():
    x = torch.zeros(2, device="cuda")
    return torch.from_dlpack(x, copy=True).data_ptr() == x.data_ptr()


def dlpack_refuses_gradients():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: torch.from_dlpack(w))


def results_of_operations_share_nothing():
    x = torch.ones(2, device="cuda")
    return (x + 0).data_ptr() == x.data_ptr(), x.add_(0).data_ptr() == x.data_ptr()


def split_and_chunks_are_views():
    x = torch.arange(4, device="cuda")
    first, second = x.chunk(2)
    first.zero_()
    return x.tolist(), places(first, second), second.storage_offset()
