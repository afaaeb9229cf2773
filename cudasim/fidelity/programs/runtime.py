"""`torch.cuda`: counting, choosing, asking; what is not there; CUDA's own errors."""

import multiprocessing

import torch

from fidelity.asking import beginning, gpus, raised, warned


def there_is_cuda():
    count = torch.cuda.device_count()
    return (
        torch.cuda.is_available(),
        count >= 1,
        type(count).__name__,
        torch.backends.cuda.is_built(),
    )


def cuda_begins_when_it_is_needed():
    before = torch.cuda.is_initialized()
    torch.ones(1, device="cuda")
    return before, torch.cuda.is_initialized()


def the_first_gpu_is_current():
    return torch.cuda.current_device(), type(torch.cuda.current_device()).__name__


def choosing_a_gpu_that_is_not_there():
    return raised(lambda: torch.cuda.set_device(99))


def choosing_what_is_no_gpu():
    return [
        raised(lambda: torch.cuda.set_device("cpu")),
        raised(lambda: torch.cuda.set_device("gpu")),
        raised(lambda: torch.cuda.set_device(1.5)),
        raised(lambda: torch.cuda.set_device(None)),
    ]


def a_negative_choice_changes_nothing():
    return raised(lambda: torch.cuda.set_device(-1)), torch.cuda.current_device()


def every_spelling_of_a_choice():
    for device in (0, "cuda:0", torch.device("cuda", 0)):
        torch.cuda.set_device(device)
    return torch.cuda.current_device(), raised(lambda: torch.cuda.set_device("cuda"))


def a_context_and_back():
    with torch.cuda.device(0):
        within = torch.cuda.current_device(), str(torch.ones(1, device="cuda").device)
    return within, torch.cuda.current_device()


def a_context_of_a_gpu_that_is_not_there():
    def enter():
        with torch.cuda.device(99):
            pass

    return raised(enter)


def a_context_of_what_is_no_gpu():
    def enter(device):
        with torch.cuda.device(device):
            return torch.cuda.current_device()

    return (
        raised(lambda: enter("cpu")),
        raised(lambda: enter("gpu")),
        enter(None),
        enter(-1),
    )


def a_context_of_a_tensor():
    with torch.cuda.device_of(torch.ones(1, device="cuda")):
        first = torch.cuda.current_device()
    with torch.cuda.device_of(torch.ones(1)):
        return first, torch.cuda.current_device()


def facts_of_a_card_have_types():
    properties = torch.cuda.get_device_properties(0)
    return (
        type(torch.cuda.get_device_name()).__name__,
        [type(part).__name__ for part in torch.cuda.get_device_capability()],
        torch.cuda.get_device_name() == properties.name,
        torch.cuda.get_device_capability() == (properties.major, properties.minor),
        properties.warp_size,
    )


def facts_of_a_gpu_that_is_not_there():
    return [
        raised(lambda: torch.cuda.get_device_properties(99)),
        raised(lambda: torch.cuda.get_device_name(99)),
        raised(lambda: torch.cuda.get_device_capability(99)),
    ]


def facts_of_what_is_no_gpu():
    return [
        raised(lambda: torch.cuda.get_device_properties("cpu")),
        raised(lambda: torch.cuda.get_device_name("gpu")),
        raised(lambda: torch.cuda.get_device_properties(-1)),
    ]


def peers():
    return [
        raised(lambda: torch.cuda.can_device_access_peer(0, 99)),
        raised(lambda: torch.cuda.can_device_access_peer(99, 0)),
        torch.cuda.can_device_access_peer(0, 0),
    ]


def waiting():
    return [
        torch.cuda.synchronize(),
        torch.cuda.synchronize(0),
        torch.cuda.synchronize("cuda"),
        raised(lambda: torch.cuda.synchronize("cpu")),
        raised(lambda: torch.cuda.synchronize(99)),
    ]


def cudas_results_in_words():
    numbers = [0, 1, 2, 3, 100, 101, 209, 700, 710, 999]
    return {
        str(number): raised(lambda n=number: torch.cuda.check_error(n))
        for number in numbers
    }


@gpus(0)
def classes_of_errors():
    kinds = [
        torch.AcceleratorError,
        torch.cuda.CudaError,
        torch.cuda.DeferredCudaCallError,
    ]
    return [[each.__name__ for each in kind.__mro__] for kind in kinds]


def an_error_of_the_runtime_has_a_number():
    try:
        torch.ones(1, device="cuda:99")
    except torch.AcceleratorError as error:
        return getattr(error, "error_code", None), isinstance(error, RuntimeError)


def an_error_leaves_the_gpu_usable():
    raised(lambda: torch.ones(1, device="cuda:99"))
    raised(lambda: torch.empty(2**50, device="cuda"))
    return repr(torch.ones(1, device="cuda") + 1)


def an_index_beyond_the_end_is_found_by_the_kernel():
    x, index = torch.ones(3, device="cuda"), torch.tensor([7], device="cuda")

    def look_up():
        x[index]
        torch.cuda.synchronize()

    return beginning(look_up), beginning(lambda: torch.ones(1, device="cuda"))


def a_class_beyond_the_last_is_found_by_the_kernel():
    x, target = torch.ones(1, 3, device="cuda"), torch.tensor([7], device="cuda")

    def compute():
        torch.nn.functional.cross_entropy(x, target)
        torch.cuda.synchronize()

    return beginning(compute)


def a_word_beyond_the_last_is_found_by_the_kernel():
    def compute():
        torch.nn.Embedding(3, 2).cuda()(torch.tensor([7], device="cuda"))
        torch.cuda.synchronize()

    return beginning(compute)


def a_shape_that_does_not_fit_is_found_by_the_host():
    x, y = torch.ones(2, 3, device="cuda"), torch.ones(4, device="cuda")
    return raised(lambda: x + y), raised(lambda: x @ y), raised(lambda: x.view(5))


def types_that_do_not_fit():
    x, y = (
        torch.ones(2, 2, device="cuda"),
        torch.ones(2, 2, dtype=torch.float16, device="cuda"),
    )
    return (
        raised(lambda: x @ y),
        raised(lambda: torch.dot(x[0], y[0])),
        raised(lambda: x[0] & y[0]),
    )


def what_cuda_cannot_multiply():
    x = torch.ones(2, 2, dtype=torch.int32, device="cuda")
    return (
        raised(lambda: x @ x),
        raised(lambda: x[0] @ x[0]),
        raised(lambda: torch.bmm(x[None], x[None])),
    )


def what_cuda_cannot_convolve():
    x = torch.ones(1, 1, 3, 3, dtype=torch.int32, device="cuda")
    return beginning(lambda: torch.nn.functional.conv2d(x, x))


def what_cuda_has_no_kernel_for():
    x = torch.ones(2, 2, dtype=torch.float16, device="cuda")
    return [
        raised(lambda: torch.linalg.inv(x)),
        raised(lambda: torch.linalg.svd(x)),
        raised(lambda: torch.linalg.qr(x)),
        raised(lambda: torch.histc(x.bool())),
    ]


def a_matrix_without_inverse():
    return raised(lambda: torch.linalg.inv(torch.zeros(2, 2, device="cuda")))


def what_is_the_hosts_alone():
    x = torch.ones(2, device="cuda")
    return beginning(x.to_mkldnn), beginning(lambda: torch.from_numpy(x))


@gpus(1, fork=True)
def a_forked_process_may_not_use_cuda():
    def child(sender):
        sender.send(raised(lambda: torch.ones(1, device="cuda")))

    torch.ones(1, device="cuda")
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(sender,))
    process.start()
    told = receiver.recv()
    process.join()
    return told


def waiting_may_be_forbidden():
    torch.cuda.set_sync_debug_mode("error")
    try:
        return raised(
            lambda: torch.ones(1, device="cuda").item()
        ), torch.cuda.get_sync_debug_mode()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def waiting_may_be_warned_of():
    x = torch.ones(1, device="cuda")
    torch.cuda.set_sync_debug_mode("warn")
    try:
        return warned(x.item)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def settings_at_first():
    return [
        torch.cuda.get_sync_debug_mode(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.is_available(),
        torch.get_float32_matmul_precision(),
    ]


def marks_for_a_profiler():
    outer, inner = (
        torch.cuda.nvtx.range_push("outer"),
        torch.cuda.nvtx.range_push("inner"),
    )
    return outer, inner, torch.cuda.nvtx.range_pop(), torch.cuda.nvtx.range_pop()


def names_without_a_gpu_behind_them():
    return raised(lambda: torch.cuda.no_such_name), raised(
        lambda: torch.ones(1).cuda.device
    )


@gpus(2)
def the_current_gpu_is_changed():
    torch.cuda.set_device(1)
    chosen = torch.cuda.current_device(), str(torch.ones(1, device="cuda").device)
    torch.cuda.set_device(0)
    return chosen, str(torch.ones(1).cuda().device)


@gpus(2)
def contexts_nest():
    told = [torch.cuda.current_device()]
    with torch.cuda.device(1):
        told.append(torch.cuda.current_device())
        with torch.cuda.device("cuda:0"):
            told.append(torch.cuda.current_device())
        told.append(torch.cuda.current_device())
    return [*told, torch.cuda.current_device()]


@gpus(2)
def two_gpus_are_equal():
    first, second = (torch.cuda.get_device_properties(i) for i in (0, 1))
    return first.name == second.name, first.uuid == second.uuid
