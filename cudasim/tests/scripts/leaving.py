"""Print what two simulations have not put back, one of which ends in an exception: `KIND`.

KIND is the type of device: cuda or mps.
"""

import contextlib

# What is compared is imported before the first comparison.
import multiprocessing.reduction  # noqa: F401
import os
import subprocess  # noqa: F401
import sys
import tempfile
import threading

import torch
import torch.distributed.fsdp
import torch.utils.checkpoint
import torch.utils.data

import cudasim
import cudasim.simulation

CLASSES = set("torch threading multiprocessing subprocess pickle concurrent".split())
MODULES = CLASSES | {"copyreg", "random", "os", "builtins", "numpy"}
# Attributes that Python itself changes.
UNSTABLE = {"__annotations_cache__", "__abstractmethods__", "__builtins__"}

KIND = sys.argv[1]
runtime = getattr(torch, KIND)
checkpoint = os.path.join(tempfile.mkdtemp(), "net.pt")


def top_level(name):
    return name.split(".")[0]


def owners():
    """Yield what a simulation might patch, with its name: modules and their classes."""
    # It is hidden by what forwards to it.
    yield "torch.backends.cudnn.m", torch.backends.cudnn.m
    for name, module in list(sys.modules.items()):
        if top_level(name) not in MODULES:
            continue
        yield name, module
        for value in list(vars(module).values()):
            if isinstance(value, type) and top_level(value.__module__) in CLASSES:
                yield f"{value.__module__}.{value.__qualname__}", value


def identities(value):
    """Return the identities of what is in a small dict, list or set, else None."""
    if type(value) not in (dict, list, set) or len(value) >= 2000:
        return None
    keys = [id(item) for item in value]
    if type(value) is dict:
        return keys, [id(item) for item in value.values()]
    return keys


def snapshot():
    """Return each attribute, and the identities of what is in it."""
    attributes = {
        ("sys", "excepthook"): (sys.excepthook, None),
        ("sys", "meta_path"): (sys.meta_path, identities(sys.meta_path)),
    }
    for name, owner in owners():
        for key, value in list(vars(owner).items()):
            if key not in UNSTABLE:
                attributes[name, key] = value, identities(value)
    return attributes


def answer(call):
    """Return what `call` answers, or its error, as text."""
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def answers():
    """Return what torch answers where C++ would notice a simulation that is not gone."""
    net = torch.nn.Linear(2, 2)
    x = torch.ones(2)

    def with_cuda_as_the_default():
        torch.set_default_device("cuda")
        return torch.ones(1)

    calls = [
        # CUDA.
        lambda: torch.ones(2, device="cuda"),
        lambda: x.to("cuda:1"),
        lambda: torch.tensor([1], device="cuda"),
        lambda: net.cuda(),
        lambda: net.to(0),
        lambda: torch.load(checkpoint),
        lambda: torch.load(checkpoint, map_location="cuda:0"),
        lambda: torch.Generator("cuda"),
        lambda: torch.cuda.Stream(),
        lambda: torch.device(0),
        lambda: torch.cuda.memory_allocated(),
        lambda: torch.cuda.is_available(),
        lambda: torch.accelerator.is_available(),
        lambda: torch.cuda.is_initialized(),
        lambda: torch.distributed.is_nccl_available(),
        lambda: x.pin_memory(),
        # The type of the simulation.
        lambda: torch.ones(2, device=KIND),
        lambda: torch.Generator(KIND),
        lambda: torch.load(checkpoint, map_location=KIND),
        lambda: net.to(KIND),
        lambda: runtime.device_count(),
        # Other types.
        lambda: torch.xpu.Stream(),
        lambda: torch.mps.current_allocated_memory(),
        lambda: torch.backends.mps.is_built(),
        with_cuda_as_the_default,
        lambda: torch.set_default_device(None),
    ]
    return [answer(call) for call in calls]


def work():
    """Use much of what a simulation patches."""
    net = torch.nn.Linear(2, 2).to(KIND)
    x = torch.ones(2, 2, device=KIND)
    net(x).sum().backward()
    torch.optim.Adam(net.parameters()).step()
    torch.manual_seed(1)

    thread = threading.Thread(target=lambda: x + 1)
    thread.start()
    thread.join()

    torch.save(net.state_dict(), checkpoint)
    str(net.weight)
    with torch.autocast(KIND):
        net(x)
    runtime.synchronize()
    torch.accelerator.current_stream()
    if KIND != "mps":
        runtime.memory_allocated()
        runtime.Stream().synchronize()


with cudasim.simulate(device_type=KIND):  # imports lazily, and writes the checkpoint
    work()
environ_before = dict(os.environ)
before = snapshot()
answers_before = answers()

cudasim.enable(gpus=1, device_type=KIND)
work()
cudasim.disable()
with contextlib.suppress(KeyError), cudasim.simulate(device_type=KIND):
    work()
    raise KeyError

after = snapshot()
for name in sorted(before.keys() | after.keys()):
    if name not in before or name not in after:
        print("changed:", *name)
        continue
    old, old_identities = before[name]
    new, new_identities = after[name]
    if old is not new or old_identities != new_identities:
        print("changed:", *name)
for old, new in zip(answers_before, answers(), strict=True):
    if old != new:
        print("answered:", old, "| now:", new)
errors = [text for text in answers_before if ": " in text]
print("environment is the same:", environ_before == dict(os.environ))
print("errors:", len(errors))
