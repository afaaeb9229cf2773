"""The stages of `make test`, the quickest first: all run, whatever fails; a summary ends them.

Every folder of tests is a stage by its name, and so is every recorded runner, whose outputs nbval
compares with a fresh execution. `FULL=1` adds what is slow: tests marked `full`, and the further
conditions that a kernel's metadata list as `compare`. `STAGE="unit site"` runs some.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.book.runners import Runner, read_runners
from tools.errors import BookError
from tools.files import ROOT

# They find the common faults, so they run before the chapters are compared.
QUICK_STAGES = ("unit", "content")
# Environments that take minutes to make: a stage that has to be named.
ROOMS = "cleanroom"
WORKERS = str(min(os.cpu_count() or 1, 4))  # each may need a GB of memory
PATIENCE = 2  # seconds that an interrupted stage has for its cleaning up
NOT_FULL = ("-m", "not full")


@dataclass(frozen=True)
class Stage:
    """A part of `make test`: a module of Python to run, with its arguments."""

    name: str
    module: tuple[str, ...]
    paths: tuple[str, ...] = ()  # what it covers, relative to the root
    environment: Mapping[str, str] = field(default_factory=dict)


def all_stages(full: bool = False, root: Path = ROOT) -> list[Stage]:
    """Return every stage that runs without being named, in the order of a run.

    What cards printed is compared by `tools compare`.
    """
    tests = (root / "tests").glob("*/test_*.py")
    folders = {path.parent.name for path in tests}
    quick = [name for name in QUICK_STAGES if name in folders]
    others = sorted(folders - {*QUICK_STAGES, ROOMS})

    stages = [
        Stage("lint", ("ruff", "check", ".")),
        Stage("format", ("ruff", "format", "--check", ".")),
        Stage("rules", ("tools", "rules")),
        Stage("languages", ("tools", "languages", "--check")),
    ]
    for name in quick:
        stages.append(_tests(name, full))
    for runner in read_runners(root).values():
        # Those of other frameworks than PyTorch make environments of their own.
        if not runner.is_real_gpu and (full or not runner.requirements):
            stages += _comparisons(runner, full)
    for name in others:
        stages.append(_tests(name, full))
    stages.append(_tests("simulator", full, "cudasim/tests"))
    stages.append(Stage("gpu", ("tools", "compare", "--if-any")))
    return stages


def _tests(name: str, full: bool, folder: str = "") -> Stage:
    distribution = "loadgroup" if name == ROOMS else "worksteal"
    module = ["pytest", "-n", WORKERS, "--dist", distribution]
    module += ["--durations", "5"]  # so that each run says where its time went
    if not full:
        module += NOT_FULL
    path = folder or f"tests/{name}"
    # Side by side, each with a thread for every core, tests would wait for each other.
    return Stage(name, tuple(module), (path,), {"OMP_NUM_THREADS": "1"})


def _comparisons(runner: Runner, full: bool) -> list[Stage]:
    """Return a stage for each condition in which a runner is to print the same."""
    module = ["pytest", "--nbval", "--nbval-kernel-name", runner.name]
    module += ["--nbval-sanitize-with", runner.sanitize, "-p", "tools.nbval_exercises"]
    # A framework beside PyTorch has one chapter, for which one process is enough.
    if not runner.requirements:
        module += ["-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
    # Kernels run side by side: threads that wait leave the cores to others.
    shared = {"JUPYTER_PATH": str(runner.root), "OMP_WAIT_POLICY": "PASSIVE"}

    paths = (f"outputs/{runner.name}",)
    first, *others = runner.conditions
    if not full:
        words = (*module, *NOT_FULL)
        return [Stage(_nbval_name(runner, first), words, paths, shared | first)]
    stages = [Stage(_nbval_name(runner, first), (*module,), paths, shared | first)]
    # No exercise depends on a condition in which its chapter comes out the same.
    words = (*module, "-m", "not exercise")
    for variables in others:
        name = _nbval_name(runner, variables)
        stages.append(Stage(name, words, paths, shared | variables))
    return stages


def _nbval_name(runner: Runner, variables: Mapping[str, str]) -> str:
    name = f"nbval {runner.name}"
    for variable, value in variables.items():
        name += f" {variable}={value}"
    return name


def chosen_stages(
    words: list[str], full: bool = False, root: Path = ROOT
) -> list[Stage]:
    """Return the stages whose names hold one of `words`, or all.

    Raises BookError for a word that is in no name.
    """
    stages = all_stages(full, root)
    if not words:
        return stages
    stages = [*stages, _tests(ROOMS, full=True)]
    chosen = set()
    for word in words:
        matching = [stage.name for stage in stages if word in stage.name]
        if not matching:
            names = ", ".join(stage.name for stage in stages)
            raise BookError(
                "STAGE", f"no stage is called '{word}'", f"choose from: {names}"
            )
        chosen.update(matching)
    return [stage for stage in stages if stage.name in chosen]


def run_stages(words: list[str], full: bool = False, root: Path = ROOT) -> None:
    """Run stages and print a summary; on Ctrl-C, KeyboardInterrupt says which were not run."""
    begin = time.monotonic()
    stages = chosen_stages(words, full, root)
    lines = []
    failed = []
    for number, stage in enumerate(stages, start=1):
        start = time.monotonic()
        elapsed = _clock(start - begin).strip()
        progress = f"{number} of {len(stages)}, after {elapsed}"
        print(f"\n=== {stage.name} ({progress})", flush=True)
        try:
            code = run_stage(stage, root)
        except KeyboardInterrupt:
            rest = ", ".join(stage.name for stage in stages[number:]) or "no other"
            stopped = f"interrupted in the stage {stage.name}; not run: {rest}"
            raise KeyboardInterrupt(stopped) from None
        if code != 0:
            failed.append(stage.name)
        result = "passed" if code == 0 else "FAILED"
        line = f"{_clock(time.monotonic() - start)}  {result}  {stage.name}"
        print(line, flush=True)
        lines.append(line)

    lines.append(f"{_clock(time.monotonic() - begin)}  in all")
    print(f"\n=== summary: {len(stages)} stages run", *lines, sep="\n", flush=True)
    if failed:
        raise BookError("make test", f"failed: {', '.join(failed)}")


def _clock(seconds: float) -> str:
    return f"{seconds // 60:3.0f}:{seconds % 60:04.1f}"


def run_stage(stage: Stage, root: Path = ROOT) -> int:
    """Run one stage and return its exit code."""
    # `kill` and a closed terminal end all, as Ctrl-C does. Windows has no SIGHUP.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-m", *stage.module, *stage.paths],
        cwd=root,
        env=os.environ | stage.environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        end(process)
        raise


def end(process: subprocess.Popen) -> None:
    """Interrupt a process; then kill it, if it is still there, and all that it started."""
    # A second Ctrl-C would leave some behind.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        started.update(parent.children(recursive=True))
        if os.name == "posix":  # on Windows, Ctrl-C reaches all processes of a console
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            started.update(parent.children(recursive=True))
            time.sleep(0.05)
    process.kill()
    process.wait()
    for child in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(started, timeout=PATIENCE)
