"""Memory: counted to the byte, kept in a cache, refused in words."""

import torch
from torch import nn

from fidelity.asking import gpus, layouts, memory_held, raised, warned

MIB = 2**20


def nothing_at_first():
    before = memory_held()
    torch.cuda.init()
    return before, memory_held(), torch.cuda.max_memory_allocated()


def requests_are_rounded_up():
    held = []
    for size in (1, 512, 513, MIB, MIB + 1):
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        held.append(torch.cuda.memory_allocated())
        del x
    return held


def an_empty_tensor_takes_nothing():
    x = torch.empty(0, device="cuda")
    return x.is_cuda, memory_held()


def small_requests_share_a_segment():
    x = [torch.ones(1, device="cuda") for _ in range(3)]
    return len(x), memory_held()


def larger_requests_take_more():
    held = []
    for mib in (1, 2, 9, 10, 11, 64):
        x = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
        held.append([mib, *(size / MIB for size in memory_held())])
        del x
        torch.cuda.empty_cache()
    return held


def views_take_nothing():
    x = torch.ones(1000, device="cuda")
    before = torch.cuda.memory_allocated()
    views = x[1:], x.view(10, 100), x.T, x.detach(), nn.Parameter(x)
    return len(views), torch.cuda.memory_allocated() - before


def the_last_view_keeps_the_memory():
    x = torch.ones(1000, device="cuda")
    row, held = x[:1], torch.cuda.memory_allocated()
    del x
    kept = torch.cuda.memory_allocated()
    del row
    return held, kept, torch.cuda.memory_allocated()


def in_place_takes_nothing():
    x = torch.ones(1000, device="cuda")
    peak = torch.cuda.max_memory_allocated()
    x.add_(1).mul_(2).relu_()
    return torch.cuda.max_memory_allocated() - peak


def what_is_freed_stays_reserved():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    del x
    freed = memory_held()
    torch.cuda.empty_cache()
    return freed, memory_held()


def the_cache_serves_again():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    del x
    x = torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
    return x.is_cuda, memory_held()


def a_cache_in_use_is_not_emptied():
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    del y
    torch.cuda.empty_cache()
    return x.is_cuda, memory_held()


def peaks_are_kept_and_reset():
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    del x
    peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    return peaks, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()


def peaks_see_what_lies_between():
    x = torch.ones(MIB, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    y = (x + 1) * 2
    return (
        y.is_cuda,
        torch.cuda.max_memory_allocated() // MIB,
        torch.cuda.memory_allocated() // MIB,
    )


def the_driver_counts_what_is_reserved():
    torch.cuda.init()
    torch.ones(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    left, same = torch.cuda.mem_get_info()
    return x.is_cuda, (free - left) // MIB, total == same, 0 < left < total


def the_driver_speaks_of_a_card_in_two_integers():
    info = torch.cuda.mem_get_info()
    total = torch.cuda.get_device_properties(0).total_memory
    return type(info).__name__, [type(part).__name__ for part in info], info[1] == total


def out_of_memory():
    keep = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    text = raised(lambda: torch.empty(2**50, dtype=torch.uint8, device="cuda"))
    first, rest = text.split(" GPU 0 has a total capacity of ")
    return keep.is_cuda, first, rest[rest.index("Of the allocated memory") :]


def out_of_memory_tells_what_the_process_has():
    text = raised(lambda: torch.empty(2**50, dtype=torch.uint8, device="cuda"))
    units = ("bytes", "KiB", "MiB", "GiB")
    words = text[: text.index(" Of the allocated memory")].split()
    return [word for word in words if not word[0].isdigit() and word not in units]


@gpus(0)
def the_class_of_out_of_memory():
    kind = torch.OutOfMemoryError
    return [each.__name__ for each in kind.__mro__], kind is torch.cuda.OutOfMemoryError


def out_of_memory_changes_no_count():
    x = torch.ones(1, device="cuda")
    before = memory_held()
    raised(lambda: torch.empty(2**50, dtype=torch.uint8, device="cuda"))
    stats = torch.cuda.memory_stats()
    return x.is_cuda, before == memory_held(), stats["num_ooms"]


def more_than_can_be_counted():
    return raised(lambda: torch.empty(2**62, device="cuda"))


def a_fraction_of_the_card():
    torch.cuda.init()
    share = 100 * MIB / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share)
    try:
        text = raised(lambda: torch.empty(200 * MIB, dtype=torch.uint8, device="cuda"))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return text.split(" GPU 0 has")[0], "100.00 MiB allowed; Of the allocated" in text


def a_fraction_that_is_none():
    return [
        raised(lambda: torch.cuda.set_per_process_memory_fraction(2.0)),
        raised(lambda: torch.cuda.set_per_process_memory_fraction(1)),
    ]


def counts_of_blocks():
    x = [torch.ones(1, device="cuda") for _ in range(3)]
    del x[0]
    stats = torch.cuda.memory_stats()
    names = [
        "allocation.all.current",
        "allocation.all.peak",
        "allocation.all.allocated",
    ]
    names += [
        "allocated_bytes.small_pool.freed",
        "segment.all.current",
        "requested_bytes.all.current",
    ]
    return {name: stats[name] for name in names}


def counts_are_reset():
    x = torch.ones(1, device="cuda")
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    return x.is_cuda, stats["allocation.all.allocated"], stats["allocation.all.current"]


def names_of_figures():
    torch.ones(1, device="cuda")
    return sorted(torch.cuda.memory_stats())


def a_segment_in_a_snapshot():
    x = torch.ones(1, device="cuda")
    (segment,) = torch.cuda.memory_snapshot()
    names = [
        "total_size",
        "allocated_size",
        "active_size",
        "segment_type",
        "stream",
        "is_expandable",
    ]
    return x.is_cuda, {name: segment[name] for name in names}, len(segment["blocks"])


def blocks_share_segments_of_their_pool():
    return layouts((0.5, 0.5, 4, 8, 6, 10))


def a_large_rest_is_split_off_and_a_small_one_is_not():
    return layouts((12.5, 11))


def the_smallest_free_block_that_fits_is_taken():
    return layouts((9, 5, 3, 1.5, -1, -3), (2,))


def neighbours_that_are_free_become_one():
    return layouts((4, 4, 4, 8, -1, -3), (-2,), (11,), (-4, -5))


def an_expandable_segment_grows_and_is_cut_closely():
    steps = (
        ("expandable_segments:True", 4, 12.25, 30),
        (-2, 12),
        (20,),
        (-1, -3, -4, -5),
    )
    return layouts(*steps)


def an_expandable_segment_gives_back_whole_pages():
    steps = ("expandable_segments:True", 20, 20, 20, 20, 20), (-2, -4, 40)
    return layouts(*steps, allowed=100)


def small_and_large_blocks_have_expandable_segments_of_their_own():
    steps = ("expandable_segments:True", 0.5, 2), ("expandable_segments:False", 2)
    return layouts(*steps)


def blocks_above_the_limit_of_splitting_are_kept_whole():
    return layouts(("max_split_size_mb:50", 100, -1, 10), (90,), (-3, 60), allowed=120)


def what_is_too_large_to_split_is_given_back_unless_it_can_grow():
    texts = [
        f"expandable_segments:{each},max_split_size_mb:40"
        for each in (False, True, False)
    ]
    return layouts(*((text, 40) for text in texts), (-1, -2, -3, 120), allowed=120)


def as_much_is_free_in_pieces():
    torch.cuda.init()
    share = (40 * MIB + 1) / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share)
    held = [torch.empty(5 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    del held[::2]
    text = raised(lambda: torch.empty(15 * MIB, dtype=torch.uint8, device="cuda"))
    return text[: text.index(" GPU 0")], text[text.index("Of the allocated") :]


def settings_that_are_none():
    texts = [
        "expandable_segments:yes",
        "max_split_size_mb:20",
        "garbage_collection_threshold:2",
    ]
    change = torch._C._accelerator_setAllocatorSettings
    return [raised(lambda text=text: change(text)).partition(":")[0] for text in texts]


def the_summary_has_a_title():
    return torch.cuda.memory_summary().splitlines()[1:4]


def resizing_is_counted():
    x = torch.ones(128, device="cuda")
    x.resize_(1000)
    grown = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    x.untyped_storage().resize_(0)
    return grown, torch.cuda.memory_allocated()


def a_layer_its_gradients_and_adam():
    net = nn.Linear(1000, 1000, bias=False).cuda()
    held = [torch.cuda.memory_allocated()]
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    net.weight.grad = torch.ones_like(net.weight)
    held.append(torch.cuda.memory_allocated())
    optimizer.step()
    held.append(torch.cuda.memory_allocated())
    optimizer.zero_grad()
    return [*held, torch.cuda.memory_allocated()]


def a_matrix_product_leaves_a_workspace():
    x = torch.ones(64, 64, device="cuda")
    before = torch.cuda.memory_allocated()
    x @ x
    return torch.cuda.memory_allocated() > before


def gradients_keep_what_they_need():
    x = torch.ones(MIB, device="cuda", requires_grad=True)
    y = x.exp()
    held = [torch.cuda.memory_allocated() // MIB]
    y.sum().backward()
    return [*held, torch.cuda.memory_allocated() // MIB]


def pinned_memory_is_not_the_gpus():
    x = torch.ones(MIB).pin_memory()
    torch.cuda.init()
    return x.is_pinned(), memory_held()


def raw_memory_is_counted():
    address = torch.cuda.caching_allocator_alloc(3 * MIB)
    held = torch.cuda.memory_allocated()
    torch.cuda.caching_allocator_delete(address)
    return held, torch.cuda.memory_allocated()


def old_names_warn():
    torch.cuda.init()
    return warned(torch.cuda.memory_cached), warned(torch.cuda.max_memory_cached)


def memory_of_a_gpu_that_is_not_there():
    torch.cuda.init()
    return [
        raised(lambda: torch.cuda.memory_allocated(99)),
        raised(lambda: torch.cuda.memory_stats(99)),
        raised(lambda: torch.cuda.reset_peak_memory_stats(99)),
        raised(lambda: torch.cuda.memory_allocated("cpu")),
    ]


def the_driver_on_a_gpu_that_is_not_there():
    return raised(lambda: torch.cuda.mem_get_info(99)), raised(
        lambda: torch.cuda.mem_get_info("cpu")
    )


@gpus(2)
def each_gpu_has_its_own_memory():
    x = torch.ones(1, device="cuda:1")
    held = [torch.cuda.memory_allocated(i) for i in (0, 1)]
    y = x.cuda(0)
    return held, [torch.cuda.memory_allocated(i) for i in (0, 1)], y.is_cuda


@gpus(2)
def out_of_memory_names_its_gpu():
    text = raised(lambda: torch.empty(2**50, dtype=torch.uint8, device="cuda:1"))
    return text.split(" has a total")[0]
