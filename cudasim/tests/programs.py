"""Run small programs in Python processes of their own, as a reader would."""

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "src" / "cudasim"
# What a simulation puts on PYTHONPATH for its children where the package is not installed.
INHERIT = os.pathsep.join([str(PACKAGE / "inherit"), str(PACKAGE.parent)])
# What is the same in all programs, and what a Python reads as it starts.
BASE = {
    "PYTHONPATH": str(PACKAGE.parent),
    "OMP_NUM_THREADS": "1",
    "PYTHONWARNINGS": "ignore",
}
CAN_FORK = sys.platform == "linux"
SECONDS = 300  # that a program may take


def environment(**variables):
    """Return this process's variables without a simulation's, with BASE and `variables`.

    A variable that is None is taken out.
    """
    environ = dict(os.environ)
    for name in os.environ:
        if name.startswith("CUDASIM"):
            del environ[name]
    environ |= BASE | variables
    return {name: str(value) for name, value in environ.items() if value is not None}


def run(*arguments, cwd, python=sys.executable, fresh=False, **variables):
    """Run `python *arguments` in `cwd`, which the package is not in, and return its result.

    A variable that is None is taken out of the environment. The process is forked from one that
    has torch loaded, unless it shall be `fresh` or what a Python reads as it starts differs.
    """
    environ = environment(**variables)
    same_start = all(environ.get(name) == value for name, value in BASE.items())
    forked = CAN_FORK and same_start and python == sys.executable and not fresh
    run_programs = fork if forked else start
    (result,) = run_programs([(arguments, environ)], cwd, python)
    return result


def run_ranks(*arguments, cwd, ranks=2, **variables):
    """Run `python *arguments` as each rank of a world, and return the result of each."""
    from torch.distributed import TCPStore

    # As torchrun has one.
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    world = {
        "MASTER_ADDR": store.host,
        "MASTER_PORT": store.port,
        "WORLD_SIZE": ranks,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": 0,
    }
    programs = []
    for rank in range(ranks):
        environ = environment(**world, RANK=rank, LOCAL_RANK=rank, **variables)
        programs.append((arguments, environ))
    run_programs = fork if CAN_FORK else start
    return run_programs(programs, cwd)


def start(programs, cwd, python=sys.executable):
    """Run several (arguments, environment) at once, and return the result of each."""

    def run_one(program):
        arguments, environ = program
        command = [python, *map(str, arguments)]
        options = {"capture_output": True, "text": True, "timeout": SECONDS}
        return subprocess.run(command, cwd=cwd, env=environ, **options)

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(run_one, programs))


def fork(programs, cwd, python=sys.executable):
    """As `start`, but in forks of a Python that has torch loaded."""
    with tempfile.TemporaryDirectory() as folder:
        requests = []
        for number, (arguments, environ) in enumerate(programs):
            request = {
                "arguments": [*map(str, arguments)],
                "environ": environ,
                "cwd": str(cwd),
                "stdout": f"{folder}/{number}.out",
                "stderr": f"{folder}/{number}.err",
                "seconds": SECONDS,
            }
            requests.append(request)

        server = forking()
        print(json.dumps(requests), file=server.stdin, flush=True)
        codes = json.loads(server.stdout.readline())

        results = []
        for request, code in zip(requests, codes, strict=True):
            stdout = Path(request["stdout"]).read_text()
            stderr = Path(request["stderr"]).read_text()
            result = subprocess.CompletedProcess(
                request["arguments"], code, stdout, stderr
            )
            results.append(result)
        return results


@functools.cache
def forking():
    """Return the process that programs are forked from, until this one ends."""
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("forking.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(CUDASIM_QUIET=1),
        text=True,
    )
    atexit.register(server.communicate)
    return server


def run_fidelity(*arguments, **variables):
    """Run `python *arguments` as for a recording: from a checkout, with no path to the package."""
    return run(*arguments, cwd=PROJECT, **{"PYTHONPATH": None} | variables)


def write(path, text):
    """Write a program, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


LEAVING = '''
    """Prints what is not as it was after two simulations, one of which ends in an exception."""
    import contextlib, multiprocessing.reduction, os, subprocess, sys, tempfile, threading
    import torch, torch.distributed.fsdp, torch.utils.checkpoint, torch.utils.data
    import cudasim, cudasim.simulation

    CLASSES = "torch", "threading", "multiprocessing", "subprocess", "pickle", "concurrent"
    MODULES = *CLASSES, "copyreg", "random", "os", "builtins", "numpy"
    UNSTABLE = "__annotations_cache__", "__abstractmethods__", "__builtins__"
    KIND = "{kind}"
    checkpoint = os.path.join(tempfile.mkdtemp(), "net.pt")

    def owners():
        yield "torch.backends.cudnn.m", torch.backends.cudnn.m  # hidden by what forwards to it
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] in MODULES:
                yield name, module
                for value in list(vars(module).values()):
                    if isinstance(value, type) and value.__module__.split(".")[0] in CLASSES:
                        yield f"{value.__module__}.{value.__qualname__}", value

    def snapshot():
        """Each attribute, and the identities of what is in it."""
        seen = {("sys", "excepthook"): (sys.excepthook, None)}
        seen["sys", "meta_path"] = sys.meta_path, [*map(id, sys.meta_path)]
        for name, owner in owners():
            for key in vars(owner).keys() - {*UNSTABLE}:
                value, inside = vars(owner)[key], None
                if type(value) in (dict, list, set) and len(value) < 2000:
                    values = value.values() if type(value) is dict else ()
                    inside = [*map(id, value)], [*map(id, values)]
                seen[name, key] = value, inside
        return seen

    def attempt(function):
        try:
            return str(function())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def errors():
        """What torch answers where C++ would notice a simulation that is not gone."""
        net = torch.nn.Linear(2, 2)
        return [attempt(function) for function in (
            lambda: torch.ones(2, device="cuda"), lambda: torch.ones(2).to("cuda:1"),
            lambda: torch.tensor([1], device="cuda"), lambda: net.cuda(), lambda: net.to(0),
            lambda: torch.load(checkpoint), lambda: torch.load(checkpoint, map_location="cuda:0"),
            lambda: torch.Generator("cuda"), lambda: torch.cuda.Stream(), lambda: torch.device(0),
            lambda: torch.cuda.memory_allocated(), lambda: torch.cuda.is_available(),
            lambda: torch.accelerator.is_available(), lambda: torch.cuda.is_initialized(),
            lambda: torch.distributed.is_nccl_available(), lambda: torch.ones(2).pin_memory(),
            lambda: torch.ones(2, device=KIND), lambda: torch.Generator(KIND),
            lambda: torch.load(checkpoint, map_location=KIND), lambda: net.to(KIND),
            lambda: getattr(torch, KIND).device_count(), lambda: torch.xpu.Stream(),
            lambda: torch.mps.current_allocated_memory(), lambda: torch.backends.mps.is_built(),
            lambda: torch.set_default_device("cuda") or torch.ones(1),
            lambda: torch.set_default_device(None),
        )]

    def work():
        net = torch.nn.Linear(2, 2).to(KIND)
        net(torch.ones(2, 2, device=KIND)).sum().backward()
        torch.optim.Adam(net.parameters()).step()
        torch.manual_seed(1)
        thread = threading.Thread(target=lambda: torch.ones(2, device=KIND) + 1)
        thread.start(), thread.join()
        torch.save(net.state_dict(), checkpoint)
        str(net.weight), getattr(torch, KIND).synchronize(), torch.accelerator.current_stream()
        with torch.autocast(KIND):
            net(torch.ones(2, 2, device=KIND))
        if KIND != "mps":
            getattr(torch, KIND).memory_allocated(), getattr(torch, KIND).Stream().synchronize()

    with cudasim.simulate(device_type=KIND):  # imports lazily, and writes the checkpoint
        work()
    environ, before, texts = dict(os.environ), snapshot(), errors()
    cudasim.enable(gpus=1, device_type=KIND)
    work()
    cudasim.disable()
    with contextlib.suppress(KeyError), cudasim.simulate(device_type=KIND):
        work()
        raise KeyError
    after = snapshot()
    for key in sorted(before.keys() | after.keys()):
        (old, held), (new, holds) = before.get(key, (0, 0)), after.get(key, (1, 1))
        if old is not new or held != holds:
            print("changed:", *key)
    for old, new in zip(texts, errors()):
        if old != new:
            print("said:", old, "| now:", new)
    print("environment is the same:", environ == dict(os.environ))
    print("errors:", sum(": " in text for text in texts))
'''
