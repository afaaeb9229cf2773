"""Run small programs in Python processes of their own, as a reader would."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "src" / "cudasim"
# What a simulation puts on PYTHONPATH for its children where the package is not installed.
INHERIT = os.pathsep.join([str(PACKAGE / "inherit"), str(PACKAGE.parent)])


def run(*arguments, cwd, python=sys.executable, **variables):
    """Run `python *arguments` in `cwd`, which the package is not in; returns what came of it.

    A variable that is None is taken out of the environment.
    """
    environ = {name: os.environ[name] for name in os.environ if not name.startswith("CUDASIM")}
    environ |= {
        "PYTHONPATH": str(PACKAGE.parent),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    environ |= variables
    environ = {name: value for name, value in environ.items() if value is not None}
    return subprocess.run(
        [python, *map(str, arguments)],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def run_fidelity(*arguments, **variables):
    """Run `python *arguments` as for a recording: from a checkout, with no path to the package."""
    return run(*arguments, cwd=PROJECT, **{"PYTHONPATH": None} | variables)


def write(path, text):
    """Write a program; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


LEAVING = '''
    """Prints what is not as it was after two simulations, one of which ends in an exception."""
    import copyreg, multiprocessing.reduction, os, pickle, subprocess, sys, tempfile, threading
    import torch, torch.distributed.fsdp, torch.utils.checkpoint, torch.utils.data
    import cudasim, cudasim.simulation

    CLASSES = "torch", "threading", "multiprocessing", "subprocess", "pickle", "concurrent"

    def owners():
        yield "torch.backends.cudnn.m", torch.backends.cudnn.m  # hidden by what forwards to it
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] in (*CLASSES, "copyreg", "random", "os", "builtins", "numpy"):
                yield name, module
                for key, value in list(vars(module).items()):
                    if isinstance(value, type) and value.__module__.split(".")[0] in CLASSES:
                        yield f"{value.__module__}.{value.__qualname__}", value

    def snapshot():
        seen = {}
        for name, owner in owners():
            for key, value in list(vars(owner).items()):
                if key in ("__annotations_cache__", "__abstractmethods__"):
                    continue
                inside = None
                if type(value) in (dict, list, set) and len(value) < 2000 and key != "__builtins__":
                    inside = ([*map(id, value)], value.copy() and [
                        id(item) for item in (value.values() if type(value) is dict else value)])
                seen[name, key] = value, inside
        seen["sys", "meta_path"] = list(sys.meta_path), None
        seen["sys", "excepthook"] = sys.excepthook, None
        return seen

    def attempt(function):
        try:
            return str(function())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def errors():
        net = torch.nn.Linear(2, 2)
        return [attempt(function) for function in (
            lambda: torch.ones(2, device="cuda"),
            lambda: torch.ones(2).cuda(),
            lambda: torch.ones(2).to("cuda:1"),
            lambda: torch.tensor([1], device="cuda"),
            lambda: torch.load(checkpoint),
            lambda: torch.load(checkpoint, map_location="cuda:0"),
            lambda: net.cuda(), lambda: net.to(0),
            lambda: torch.Generator("cuda"), lambda: torch.cuda.Stream(),
            lambda: torch.cuda.current_device(), lambda: torch.cuda.get_device_name(),
            lambda: torch.cuda.memory_allocated(), lambda: torch.cuda.device_count(),
            lambda: torch.cuda.is_available(), lambda: torch.cuda.is_initialized(),
            lambda: torch.accelerator.is_available(), lambda: torch.device(0),
            lambda: torch.distributed.is_nccl_available(),
            lambda: torch.cuda.manual_seed(1),
            lambda: torch.ones(2, device=KIND), lambda: torch.ones(2).to(KIND),
            lambda: torch.load(checkpoint, map_location=KIND), lambda: net.to(KIND),
            lambda: torch.Generator(KIND), lambda: getattr(torch, KIND).device_count(),
            lambda: getattr(torch, KIND).is_available(), lambda: torch.xpu.Stream(),
            lambda: torch.xpu.current_device(), lambda: torch.backends.mps.is_available(),
            lambda: torch.mps.current_allocated_memory(), lambda: torch.backends.mps.is_built(),
            lambda: torch.ones(2).pin_memory(),
            lambda: torch.set_default_device("cuda") or torch.ones(1),
            lambda: torch.set_default_device(None),
        )]

    def work():
        net = torch.nn.Linear(2, 2).to(KIND)
        net(torch.ones(2, 2, device=KIND)).sum().backward()
        torch.optim.Adam(net.parameters()).step()
        torch.manual_seed(1)
        thread = threading.Thread(target=lambda: torch.ones(2, device=KIND) + 1)
        thread.start(); thread.join()
        torch.save(net.state_dict(), checkpoint)
        str(net.weight), getattr(torch, KIND).synchronize(), torch.accelerator.current_stream()
        with torch.autocast(KIND):
            net(torch.ones(2, 2, device=KIND))
        if KIND != "mps":
            getattr(torch, KIND).memory_allocated(), getattr(torch, KIND).Stream().synchronize()

    KIND = "{kind}"
    checkpoint = os.path.join(tempfile.mkdtemp(), "net.pt")
    with cudasim.simulate(device_type=KIND):  # imports lazily, and writes the checkpoint
        work()
    environ, before, texts = dict(os.environ), snapshot(), errors()
    cudasim.enable(gpus=1, device_type=KIND)
    work()
    cudasim.disable()
    try:
        with cudasim.simulate(device_type=KIND):
            work()
            raise KeyError
    except KeyError:
        pass
    {late}
    after = snapshot()
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        same = old is not None and new is not None and (
            old[0] is new[0] or key[0] == "sys" and old[0] == new[0])
        if not same or old[1] != new[1]:
            print("changed:", *key)
    for old, new in zip(texts, errors()):
        if old != new:
            print("said:", old, "| now:", new)
    print("environment is the same:", environ == dict(os.environ))
    print("errors:", sum(": " in text for text in texts))
'''
