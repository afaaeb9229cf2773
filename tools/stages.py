"""The stages of `make test`, the quickest first: all run, whatever fails; a summary ends them.

Every folder of tests is a stage by its name, and so is every recorded runner, whose outputs nbval
compares with a fresh execution. `FULL=1` adds what is slow: tests marked `full`, and the further
settings that a kernel's metadata list as `compare`. `STAGE="unit site"` runs some.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.book.runners import Runner, read_runners
from tools.errors import BookError
from tools.root import ROOT

FIRST = ("unit", "content")  # quick, and they find what is common: before the chapters
ROOMS = (
    "cleanroom"  # environments that take minutes to make: a stage that has to be named
)
WORKERS = str(min(os.cpu_count() or 1, 4))  # each may need a GB of memory
PATIENCE = 2  # seconds that an interrupted stage has for its cleaning up


@dataclass(frozen=True)
class Stage:
    name: str
    module: tuple[str, ...]
    paths: tuple[str, ...] = ()  # what it covers, relative to the root
    environment: Mapping[str, str] = field(default_factory=dict)


def all_stages(full: bool = False, root: Path = ROOT) -> list[Stage]:
    """Every stage in the order of a run; what cards printed is compared by `tools compare`."""
    # Those of other frameworks than PyTorch make environments of their own.
    runners = read_runners(root).values()
    local = [
        runner for runner in runners if runner.is_local and (full or not runner.pins)
    ]
    folders = sorted(
        {path.parent.name for path in (root / "tests").glob("*/test_*.py")} - {ROOMS}
    )
    return [
        Stage("lint", ("ruff", "check", ".")),
        Stage("format", ("ruff", "format", "--check", ".")),
        Stage("rules", ("tools", "rules")),
        Stage("languages", ("tools", "languages", "--check")),
        *(_tests(name, full) for name in FIRST if name in folders),
        *(stage for runner in local for stage in _comparisons(runner, full)),
        *(_tests(name, full) for name in folders if name not in FIRST),
        _tests("simulator", full, "cudasim/tests"),
        Stage("gpu", ("tools", "compare", "--if-any")),
    ]


def _tests(name: str, full: bool, folder: str = "") -> Stage:
    spread = ("-n", WORKERS, "--dist", "loadgroup" if name == ROOMS else "worksteal")
    slowest = ("--durations", "5")  # so that each run says where its time went
    module = ("pytest", *spread, *slowest, *(() if full else ("-m", "not full")))
    # Side by side, each with a thread for every core, tests would wait for each other.
    return Stage(name, module, (folder or f"tests/{name}",), {"OMP_NUM_THREADS": "1"})


def _comparisons(runner: Runner, full: bool) -> Iterator[Stage]:
    """A stage for each setting in which the outputs of `runner` are to come out the same."""
    options = ("--nbval", "--nbval-kernel-name", runner.name)
    options += ("--nbval-sanitize-with", runner.sanitize, "-p", "tools.nbval_exercises")
    if not runner.pins:  # which has one chapter, for which one process is enough
        options += ("-n", WORKERS, "--dist", "loadfile", "--no-loadscope-reorder")
    # Kernels run side by side: threads that wait leave the cores to others.
    settings = {"JUPYTER_PATH": str(runner.root), "OMP_WAIT_POLICY": "PASSIVE"}
    for place, variables in enumerate(
        runner.conditions if full else runner.conditions[:1]
    ):
        # No exercise depends on a setting in which its chapter comes out the same.
        tier = ("-m", "not exercise") if place else () if full else ("-m", "not full")
        words = (f"{key}={value}" for key, value in variables.items())
        name = " ".join(["nbval", runner.name, *words])
        paths = (f"outputs/{runner.name}",)
        yield Stage(name, ("pytest", *options, *tier), paths, settings | variables)


def chosen_stages(
    words: list[str], full: bool = False, root: Path = ROOT
) -> list[Stage]:
    """The stages whose names hold one of `words`, or all; a word in no name is an error."""
    stages = all_stages(full, root)
    named = [*stages, _tests(ROOMS, full=True)] if words else stages
    for word in words:
        if not any(word in stage.name for stage in named):
            names = ", ".join(stage.name for stage in named)
            raise BookError(f"STAGE: no stage is called '{word}'; choose from: {names}")
    return [
        stage
        for stage in named
        if not words or any(word in stage.name for word in words)
    ]


def run_stages(words: list[str], full: bool = False, root: Path = ROOT) -> None:
    """Run stages and print a summary; on Ctrl-C, KeyboardInterrupt says which were not run."""
    stages, lines, failed, begin = (
        chosen_stages(words, full, root),
        [],
        [],
        time.monotonic(),
    )
    for number, stage in enumerate(stages, start=1):
        start = time.monotonic()
        after = f"after {_clock(start - begin).strip()}"
        print(f"\n=== {stage.name} ({number} of {len(stages)}, {after})", flush=True)
        try:
            code = run_stage(stage, root)
        except KeyboardInterrupt:
            rest = ", ".join(stage.name for stage in stages[number:]) or "no other"
            said = f"interrupted in the stage {stage.name}; not run: {rest}"
            raise KeyboardInterrupt(said) from None
        failed += [stage.name] * bool(code)
        took = _clock(time.monotonic() - start)
        lines.append(f"{took}  {'FAILED' if code else 'passed'}  {stage.name}")
        print(lines[-1], flush=True)
    lines.append(f"{_clock(time.monotonic() - begin)}  in all")
    print(f"\n=== summary: {len(stages)} stages run", *lines, sep="\n", flush=True)
    if failed:
        raise BookError(f"make test: failed: {', '.join(failed)}")


def _clock(seconds: float) -> str:
    return f"{seconds // 60:3.0f}:{seconds % 60:04.1f}"


def run_stage(stage: Stage, root: Path = ROOT) -> int:
    for name in (
        "SIGTERM",
        "SIGHUP",
    ):  # `kill` and a closed terminal end all, as Ctrl-C does
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.default_int_handler)
    command = [sys.executable, "-m", *stage.module, *stage.paths]
    options = {
        "cwd": root,
        "env": os.environ | stage.environment,
        "stdin": subprocess.DEVNULL,
    }
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait()
    except KeyboardInterrupt:
        end(process)
        raise


def end(process: subprocess.Popen) -> None:
    """Interrupt a process; then kill it, if it is still there, and all that it started."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a second Ctrl-C would leave some behind
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
    for left in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            left.kill()
    psutil.wait_procs(started, timeout=PATIENCE)
