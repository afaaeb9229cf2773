"""Views and storages: who shares memory with whom."""

import torch

from fidelity.asking import places, raised


def views_share_memory_on_a_gpu():
    x = torch.zeros(2, 3, device="cuda")
    views = [x[0], x.T, x.view(-1), x.detach(), x.reshape(3, 2), x[:, 1]]
    start = x.untyped_storage().data_ptr()
    return [view.untyped_storage().data_ptr() == start for view in views], places(*views)


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
    return str(storage.cpu().device), str(storage.cpu().cuda().device), storage.cuda() is storage


def a_storage_is_made_on_a_gpu():
    return str(torch.UntypedStorage(8, device="cuda").device)


def a_storage_of_another_device_is_refused():
    return raised(lambda: torch.ones(2, device="cuda").set_(torch.ones(2).untyped_storage()))


def a_storage_grows():
    x = torch.ones(2, device="cuda")
    x.resize_(4)
    return x.untyped_storage().nbytes(), x[:2].tolist(), str(x.device)


def memory_of_a_gpu_is_shared_as_it_is():
    x = torch.ones(2, device="cuda")
    return x.is_shared(), x.share_memory_() is x, torch.ones(2).is_shared()


def the_array_interface():
    interface = torch.ones(2, 3, device="cuda").__cuda_array_interface__
    return sorted(interface), interface["shape"], interface["typestr"], interface["version"]


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


def results_of_operations_share_nothing():
    x = torch.ones(2, device="cuda")
    return (x + 0).data_ptr() == x.data_ptr(), x.add_(0).data_ptr() == x.data_ptr()


def split_and_chunks_are_views():
    x = torch.arange(4, device="cuda")
    first, second = x.chunk(2)
    first.zero_()
    return x.tolist(), places(first, second), second.storage_offset()
