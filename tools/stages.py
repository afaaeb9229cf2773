"""The stages of `make test`: all run, in order, whatever fails; a summary ends them.

What the runners print is compared first. Which runners, and under which conditions, follows
from `outputs/` and `kernels/`: the metadata of a kernel may list, as `compare`, the
environment variables of each comparison. No stage can be lost without a word: a run ends
with an error while a folder of tests or a recorded runner is in no stage.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tools.book.chapters import LAUNCHER
from tools.book.runners import GPU, Runner, read_runners
from tools.errors import BookError
from tools.files import write_json
from tools.record.provenance import made_here
from tools.root import ROOT

SIMULATOR = "cudasim/tests"
TIMES = "_build/test-times.json"  # how long each stage took in the last whole run that passed
# Run by `make cleanroom`, and by a test of the simulator.
ELSEWHERE = ("tests/cleanroom", "cudasim/example")
WORKERS = str(min(os.cpu_count() or 1, 4))  # each may need a GB of memory
PATIENCE = 2  # seconds that an interrupted stage has for its cleaning up


@dataclass(frozen=True)
class Stage:
    """One command of `make test`: a Python module with its arguments."""

    name: str
    module: tuple[str, ...]
    paths: tuple[str, ...] = ()  # what it covers, relative to the root
    environment: Mapping[str, str] = field(default_factory=dict)


def all_stages(root: Path = ROOT) -> list[Stage]:
    """Every stage of `make test`, in the order of a run.

    Raises BookError if a runner of `kernels/` is recorded nowhere, or a recorded one is not
    in `kernels/`.
    """
    runners = read_runners(root)
    slowest = ("--durations", "5")  # so that each run says where its time went
    side_by_side = ("pytest", "-n", WORKERS, "--dist", "worksteal", *slowest)
    two_at_a_time = ("pytest", "-n", "2", "--dist", "worksteal", *slowest)
    return [
        *(stage for name in compared_runners(root) for stage in _nbval_stages(runners[name], root)),
        Stage("lint", ("ruff", "check", ".")),
        Stage("format", ("ruff", "format", "--check", ".")),
        Stage("rules", ("tools", "rules")),
        Stage("unit", side_by_side, ("tests/unit",)),
        # Chapters side by side, each with a thread for every core, would wait for each other.
        Stage("content", side_by_side, ("tests/content",), {"OMP_NUM_THREADS": "1"}),
        Stage("site", side_by_side, ("tests/site",)),
        Stage("grade", side_by_side, ("tests/grade",)),
        # Each of these tests is up to six processes: two at a time are enough on any machine.
        Stage("distributed", two_at_a_time, ("tests/distributed",)),
        Stage("simulator", side_by_side, (SIMULATOR,)),
        Stage("gpu", ("tools", "compare", "--if-any")),
    ]


def _nbval_stages(runner: Runner, root: Path) -> Iterator[Stage]:
    """One stage for every way in which the outputs of `runner` are to come out the same."""
    options = ("--nbval", "--nbval-kernel-name", runner.name)
    options += ("--nbval-sanitize-with", runner.sanitize)
    module = ("pytest", "-n", WORKERS, "--dist", "loadfile", *options)
    paths = (f"outputs/{runner.name}",)
    for variables in runner.conditions:
        settings = (f"{key}={value}" for key, value in variables.items())
        name = " ".join(["nbval", runner.name, *settings])
        # Kernels run side by side: threads that wait leave the cores to others.
        environment = {"JUPYTER_PATH": str(root), "OMP_WAIT_POLICY": "PASSIVE", **variables}
        yield Stage(name, module, paths, environment)
        paths = _of_one_process(runner, root)


def _of_one_process(runner: Runner, root: Path) -> tuple[str, ...]:
    """The outputs of chapters that start no ranks: those set their own threads, and take long."""
    folder = root / "outputs" / runner.name
    files = sorted(folder.glob("*.ipynb"))
    alone = [path for path in files if LAUNCHER not in path.read_text(encoding="utf-8")]
    paths = [folder] if alone == files else alone
    return tuple(path.relative_to(root).as_posix() for path in paths)


def compared_runners(root: Path = ROOT) -> list[str]:
    """The runners whose outputs nbval compares: all that are recorded, but those of cards.

    Raises BookError if `kernels/` and `outputs/` do not name the same runners.
    """
    declared = read_runners(root).keys() - {GPU}  # which has a stage of its own
    recorded = {path.parent.name for path in _recorded_files(root)}
    for runner in sorted(recorded - declared):
        raise BookError(
            f"outputs/{runner}: no kernels/{runner}/kernel.json to compare with; restore it, or "
            f"remove outputs/{runner}"
        )
    for runner in sorted(declared - recorded):
        raise BookError(
            f"outputs/{runner}: nothing is recorded; record it: 'make record RUNNER={runner}'"
        )
    return sorted(recorded)


def _recorded_files(root: Path) -> Iterator[Path]:
    """The outputs of every runner but real GPUs, whose folders bear the name of a card."""
    for path in (root / "outputs").glob("*/*.ipynb"):
        try:
            metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        except (ValueError, KeyError):  # a stage reports what is wrong with the file
            metadata = {}
        if metadata.get("provenance", {}).get("runner") != GPU:
            yield path


def uncovered(stages: list[Stage], root: Path = ROOT) -> list[str]:
    """The folders of tests and of recorded outputs that are in no stage.

    Outputs count as covered where a stage compares them by nbval, on their own runner.
    """
    tested = [root / path for stage in stages for path in stage.paths]
    compared = {path for stage in stages if "--nbval" in stage.module for path in stage.paths}
    tops = [path for path in root.iterdir() if path.is_dir() and path.name[0] not in "._"]
    ours = [path for path in tops if not (path / "pyvenv.cfg").exists()]
    tests = {file.parent for top in ours for file in top.rglob("test_*.py")}
    outputs = {file.parent for file in _recorded_files(root)}
    elsewhere = {root / path for path in ELSEWHERE}
    lost = [path for path in tests if not {path, *path.parents} & {*tested, *elsewhere}]
    lost += [path for path in outputs if path.relative_to(root).as_posix() not in compared]
    return sorted(path.relative_to(root).as_posix() for path in lost)


def chosen_stages(words: list[str], stages: list[Stage]) -> list[Stage]:
    """The stages whose names hold one of `words`; all of them where there are no words.

    Raises BookError if a word is in no name.
    """
    for word in words:
        if not any(word in stage.name for stage in stages):
            names = ", ".join(stage.name for stage in stages)
            raise BookError(f"STAGE: no stage is called '{word}'; choose from: {names}")
    return [stage for stage in stages if not words or any(word in stage.name for word in words)]


def run_stages(words: list[str], root: Path = ROOT) -> None:
    """Run the stages, all of them or those that `words` name, and print a summary.

    Raises BookError if one failed, or if a folder of tests or a recorded runner is in no
    stage; KeyboardInterrupt, with the stages that were not run, on Ctrl-C.
    """
    stages = all_stages(root)
    chosen = chosen_stages(words, stages)
    seconds, failed = {}, []
    for number, stage in enumerate(chosen):
        print(f"\n=== {stage.name} ({number + 1} of {len(chosen)})", flush=True)
        start = time.monotonic()
        try:
            code = run_stage(stage, root)
        except KeyboardInterrupt:
            rest = ", ".join(stage.name for stage in chosen[number + 1 :])
            raise KeyboardInterrupt(
                f"interrupted in the stage {stage.name}; not run: {rest or 'no other'}"
            ) from None
        seconds[stage.name] = time.monotonic() - start
        if code:
            failed.append(stage.name)
        print(_line(stage.name, seconds, failed), flush=True)
    print(f"\n=== summary: {len(chosen)} of {len(stages)} stages run")
    for name in seconds:
        print(_line(name, seconds, failed))
    print(f"{_clock(sum(seconds.values()))}  in all", flush=True)
    faults = [f"failed: {', '.join(failed)}"] if failed else []
    if lost := uncovered(stages, root):
        faults.append(f"in no stage of tools/stages.py: {', '.join(lost)}; add one")
    if faults:
        raise BookError(f"make test: {'; '.join(faults)}")
    if chosen == stages:
        write_times(seconds, root)


def _clock(seconds: float) -> str:
    return f"{seconds // 60:3.0f}:{seconds % 60:04.1f}"


def _line(name: str, seconds: dict[str, float], failed: list[str]) -> str:
    return f"{_clock(seconds[name])}  {'FAILED' if name in failed else 'passed'}  {name}"


def run_stage(stage: Stage, root: Path = ROOT) -> int:
    """Run one stage, what it prints unchanged; returns its exit code.

    It gets a session of its own, so that Ctrl-C reaches this process only, which then ends
    the stage and all that it started.
    """
    for name in ("SIGTERM", "SIGHUP"):  # `kill` and a closed terminal end all, as Ctrl-C does
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.default_int_handler)
    command = [sys.executable, "-m", *stage.module, *stage.paths]
    environment = os.environ | stage.environment
    process = subprocess.Popen(
        command, cwd=root, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        end(process)
        raise


def end(process: subprocess.Popen) -> None:
    """Interrupt a process; then kill it, if it is still there, and all that it started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C would leave some behind
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


def write_times(seconds: dict[str, float], root: Path = ROOT) -> None:
    """Write how long each stage took, with date and hardware, for `make bench`."""
    rounded = {name: round(value, 1) for name, value in seconds.items()}
    write_json(root / TIMES, made_here() | {"seconds": rounded}, root)
