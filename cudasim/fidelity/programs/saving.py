"""Files: where a saved tensor says that it was, and where it is loaded to."""

import copy
import io
import pickle

import torch
from torch import nn

from fidelity.asking import places, raised


def pickling_keeps_the_device():
    x = pickle.loads(pickle.dumps(torch.ones(2, device="cuda")))
    return repr(x)


def saving_keeps_the_device():
    file = io.BytesIO()
    torch.save({"gpu": torch.ones(2, device="cuda"), "cpu": torch.ones(2)}, file)
    file.seek(0)
    return repr(torch.load(file))


def a_file_names_the_places_of_its_storages():
    file, named = io.BytesIO(), []
    torch.save([torch.ones(2, device="cuda"), torch.ones(2)], file)
    file.seek(0)
    torch.load(file, map_location=lambda storage, place: named.append(place) or storage)
    return named


def a_file_of_the_old_format_names_them_too():
    file, named = io.BytesIO(), []
    torch.save(torch.ones(2, device="cuda"), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    torch.load(file, map_location=lambda storage, place: named.append(place) or storage)
    return named


def a_file_is_loaded_elsewhere():
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), file)
    targets = ["cpu", "cuda", torch.device("cpu"), {"cuda:0": "cpu"}, {"cuda:7": "cpu"}]
    loaded = []
    for target in targets:
        file.seek(0)
        loaded.append(torch.load(file, map_location=target))
    return places(*loaded)


def a_file_of_the_cpu_is_loaded_to_a_gpu():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return repr(torch.load(file, map_location="cuda"))


def a_function_may_move_storages():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return repr(torch.load(file, map_location=lambda storage, place: storage.cuda(0)))


def loading_to_a_gpu_that_is_not_there():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return raised(lambda: torch.load(file, map_location="cuda:99"))


def loading_to_what_is_no_place():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)

    def load(place):
        file.seek(0)
        torch.load(file, map_location=place)

    return [raised(lambda place=place: load(place)) for place in ("gpu", 0)]


def places_have_tags():
    storages = [
        torch.ones(1).untyped_storage(),
        torch.ones(1, device="cuda").untyped_storage(),
    ]
    return [torch.serialization.location_tag(storage) for storage in storages]


def views_saved_together_still_share():
    file = io.BytesIO()
    x = torch.zeros(4, device="cuda")
    torch.save([x, x[1:]], file)
    file.seek(0)
    whole, part = torch.load(file)
    part += 1
    return whole.tolist()


def views_copied_together_still_share():
    x = torch.zeros(4, device="cuda")
    whole, part = copy.deepcopy([x, x[2:]])
    whole[3] = 5
    return repr(part), x.tolist()


def sparse_tensors_are_saved_with_their_device():
    told = []
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        file = io.BytesIO()
        torch.save(torch.eye(3, device="cuda").to_sparse(layout=layout), file)
        for target in (None, "cpu"):
            file.seek(0)
            x = torch.load(file, map_location=target)
            told.append([*places(x, x.values()), x.to_dense().tolist()])
    return told


def types_of_number_are_saved():
    kinds = [
        torch.bfloat16,
        torch.half,
        torch.bool,
        torch.complex64,
        torch.uint8,
        torch.uint16,
    ]
    told = []
    for kind in [*kinds, torch.float8_e4m3fn]:
        file = io.BytesIO()
        torch.save(torch.zeros(3, device="cuda").to(kind), file)
        file.seek(0)
        x = torch.load(file)
        told.append([str(x.device), str(x.dtype)])
    return told


def parameters_are_saved_with_their_class():
    file = io.BytesIO()
    torch.save(nn.Parameter(torch.ones(1, device="cuda")), file)
    file.seek(0)
    return repr(torch.load(file))


def a_state_dict_goes_through_a_file():
    file = io.BytesIO()
    torch.save(nn.Linear(2, 1).cuda().state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="cpu", weights_only=True)
    return {name: str(value.device) for name, value in state.items()}


def a_whole_module_goes_through_a_file():
    file = io.BytesIO()
    torch.save(nn.Linear(2, 1).cuda(), file)
    file.seek(0)
    return str(torch.load(file, weights_only=False).weight.device)


def gradients_are_not_pickled_but_copied():
    w = torch.ones(2, device="cuda", requires_grad=True)
    w.sum().backward()
    pickled, copied = pickle.loads(pickle.dumps(w)), copy.deepcopy(w)
    return pickled.grad is None, repr(copied.grad)


def a_result_of_autograd_has_no_deep_copy():
    w = torch.ones(2, device="cuda", requires_grad=True)
    return raised(lambda: copy.deepcopy(w * 2))


def generators_are_pickled():
    generator = torch.Generator("cuda").manual_seed(3)
    again = pickle.loads(pickle.dumps(generator))
    return str(again.device), again.initial_seed()
