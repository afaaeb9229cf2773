"""Memory: how it is rounded, cached, split and counted, and when it is refused."""

import torch
from torch import nn

from fidelity.helpers import MIB, allow, block, gpus, layouts, memory_held, raised


def requests_are_rounded_up():
    held = []
    for size in (1, 512, 513, MIB, MIB + 1):
        x = torch.empty(size, dtype=torch.uint8, device="cuda")
        held.append(torch.cuda.memory_allocated())
        del x
    return held


def larger_requests_take_more():
    held = []
    for mib in (1, 2, 9, 10, 11, 64):
        x = block(mib)
        held.append([mib, *memory_held()])
        del x
        torch.cuda.empty_cache()
    return held


def what_is_freed_stays_reserved():
    x = block(64)
    del x
    freed = memory_held()
    torch.cuda.empty_cache()
    return freed, memory_held()


def peaks_see_what_lies_between():
    x = torch.ones(MIB, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    y = (x + 1) * 2
    peak = torch.cuda.max_memory_allocated()
    return y.is_cuda, peak // MIB, torch.cuda.memory_allocated() // MIB


def out_of_memory():
    keep = block(64)
    text = raised(lambda: block(2**30))
    first, rest = text.split(" GPU 0 has a total capacity of ")
    return keep.is_cuda, first, rest[rest.index("Of the allocated memory") :]


def a_large_rest_is_split_off_and_a_small_one_is_not():
    return layouts((12.5, 11))


def the_smallest_free_block_that_fits_is_taken():
    return layouts((9, 5, 3, 1.5, -1, -3), (2,))


def neighbours_that_are_free_become_one():
    return layouts((4, 4, 4, 8, -1, -3), (-2,), (11,), (-4, -5))


def an_expandable_segment_grows_and_is_cut_closely():
    first = "expandable_segments:True", 4, 12.25, 30
    return layouts(first, (-2, 12), (20,), (-1, -3, -4, -5))


def an_expandable_segment_gives_back_whole_pages():
    steps = ("expandable_segments:True", 20, 20, 20, 20, 20), (-2, -4, 40)
    return layouts(*steps, allowed=100)


def blocks_above_the_limit_of_splitting_are_kept_whole():
    return layouts(("max_split_size_mb:50", 100, -1, 10), (90,), (-3, 60), allowed=120)


def what_is_too_large_to_split_is_given_back_unless_it_can_grow():
    fixed = "expandable_segments:False,max_split_size_mb:40"
    growing = "expandable_segments:True,max_split_size_mb:40"
    steps = (fixed, 40), (growing, 40), (fixed, 40), (-1, -2, -3, 120)
    return layouts(*steps, allowed=120)


def as_much_is_free_in_pieces():
    allow(40)
    blocks = [block(5) for _ in range(8)]
    del blocks[::2]
    text = raised(lambda: block(15))
    first, rest = text.split(" GPU 0", 1)
    return first, rest[rest.index("Of the allocated") :]


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


def gradients_keep_what_they_need():
    x = torch.ones(MIB, device="cuda", requires_grad=True)
    y = x.exp()
    held = [torch.cuda.memory_allocated() // MIB]
    y.sum().backward()
    return [*held, torch.cuda.memory_allocated() // MIB]


@gpus(2)
def each_gpu_has_its_own_memory():
    x = torch.ones(1, device="cuda:1")
    before = [torch.cuda.memory_allocated(i) for i in (0, 1)]
    y = x.cuda(0)
    after = [torch.cuda.memory_allocated(i) for i in (0, 1)]
    return before, after, y.is_cuda
