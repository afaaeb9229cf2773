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
SCRIPTS = Path(__file__).with_name("scripts")
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


def run_script_as_ranks(name, *arguments, cwd, gpus=2, **variables):
    """Run a file of `scripts` as two ranks on simulated GPUs, and return both results."""
    command = ["-m", "cudasim", "--gpus", gpus, SCRIPTS / name, *arguments]
    return run_ranks(*command, cwd=cwd, **variables)


def reports(results):
    """Return what ranks printed with `report` of `scripts/ranks.py`, by rank and name."""
    texts = {}
    for result in results:
        for line in result.stdout.splitlines():
            rank, name, text = line.removeprefix("rank ").split(": ", 2)
            texts[int(rank), name] = text
    return texts


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
