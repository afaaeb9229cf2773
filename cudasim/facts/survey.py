"""A survey of the simulation against PyTorch's own databases of operators and modules.

It runs every operator of `op_db` that has float32 samples, and every module of `module_db`,
forward and backward, on a simulated GPU and on the CPU. Values must be the same, and every
result and gradient must live where its operands do.

The databases are `torch.testing._internal.common_methods_invocations` and `common_modules`,
which torch's own tests use; they come with torch and may change with it.
"""

import copy
import importlib.util
import multiprocessing
import os
import sys
import time
import types
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

import cudasim
from cudasim.device.generator import Generator
from cudasim.device.types import TYPES

TIME_LIMIT = 120.0  # seconds for one operator or module, on one core
SEED = 7

# Results that are not set by the operator, so that only their shapes can be compared.
UNINITIALISED = (
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_"
).split()

# Operators that are known not to pass, each with its reason.
NO_PIVOTS = "samples for CUDA factor without pivots, which PyTorch's CPU kernels cannot"
CPU_ALONE = "PyTorch has it for the CPU alone: refused here as on CUDA"
EXPECTED = {
    "linalg.lu": NO_PIVOTS,
    "linalg.lu_factor": NO_PIVOTS,
    "linalg.lu_factor_ex": NO_PIVOTS,
    "histogram": CPU_ALONE,
    "histogramdd": CPU_ALONE,
}

# Names that begin so compile CUDA source: there is nothing on the CPU to compare with.
CUDA_ONLY = "jiterator"

Databases = dict[str, dict[str, Any]]  # by kind (operator, module) and name


@dataclass
class Verdict:
    """The outcome of one operator or module: passed, failed, expected or skipped."""

    kind: str
    name: str
    outcome: str
    reason: str


def load_databases() -> Databases:
    """Return the operators and the modules of torch's own tests.

    Their import would freeze the settings of torch's libraries; this is prevented.
    """
    thaw = patch.object(torch.backends, "disable_global_flags", lambda: None)
    with warnings.catch_warnings(), thaw, _expecttest():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_modules import module_db

    operators = {full_name(op): op for op in op_db if torch.float32 in op.dtypes}
    modules = {info.name: info for info in module_db}
    return {"operator": operators, "module": modules}


@contextmanager
def _expecttest() -> Iterator[None]:
    """Stand in for `expecttest` where it is not installed.

    The databases need only a base class of test cases; `unittest`'s will do. Afterwards
    the stand-in goes, so that nobody else takes it for the real one.
    """
    if importlib.util.find_spec("expecttest"):
        yield
        return
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase
    sys.modules["expecttest"] = stand_in
    try:
        yield
    finally:
        del sys.modules["expecttest"]


def full_name(op: Any) -> str:
    """Return the name of an operator with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


@dataclass
class Call:
    """An operator or a module, with the arguments of a sample."""

    function: Callable
    args: tuple
    kwargs: dict[str, Any]
    pick: Callable | None  # of a result, the part that has a gradient; None for none

    def at_home(self) -> "Call":
        """Return the same call on the CPU."""
        function = self.function
        if isinstance(function, torch.nn.Module):
            function = copy.deepcopy(function).cpu()
        args, kwargs = home((self.args, self.kwargs))
        return Call(function, args, kwargs, self.pick)


def survey_operator(op: Any, device: str) -> int:
    """Run the samples of one operator on `device` and on the CPU; return their number.

    Raises AssertionError where they differ, and whatever the operator raises on `device`.
    """
    number = 0
    has_gradient = op.supports_autograd
    _seed()
    for sample in op.sample_inputs(device, torch.float32, requires_grad=has_gradient):
        number += 1
        pick = sample.output_process_fn_grad if has_gradient else None
        call = Call(op, (sample.input, *sample.args), sample.kwargs, pick)
        _compare(call, _home_of(call, device), op.name not in UNINITIALISED)
    return number


def _seed() -> None:
    torch.manual_seed(SEED)


class _Draws:
    """Sees whether random numbers are drawn: a GPU's are not those of the CPU."""

    random = False

    def __enter__(self) -> "_Draws":
        self.draw = Generator.draw

        def noting(generator: Generator) -> torch.Generator:
            self.random = True
            return self.draw(generator)

        Generator.draw = noting  # an offset would not do: some samples put it back
        return self

    def __exit__(self, *error: object) -> None:
        Generator.draw = self.draw


def _home_of(call: Call, device: str) -> str:
    """Return where the results live: on the device that is named, or on the tensors'."""
    named = call.kwargs.get("device")
    if named is not None:
        return str(torch.empty(0, device=named).device)  # `cuda` is the current one
    tensors = _tensors((call.args, call.kwargs))
    on_gpu = any(tensor.device.type in TYPES for tensor in tensors)
    return device if on_gpu else "cpu"


def _compare(call: Call, device: str, values: bool = True) -> None:
    """Raise AssertionError unless a call agrees with the same on the CPU.

    Values that are random, or not set by the operator, are not compared.
    """
    expected = _outcome(call.at_home())
    with _Draws() as draws:
        got = _outcome(call)
    values = values and not draws.random
    _agree("result", got[0], expected[0], device, values)
    _agree("gradient", got[1], expected[1], device, values)


def _outcome(call: Call) -> tuple[Any, list]:
    """Return the result of a call, and its gradients."""
    _seed()
    result = call.function(*call.args, **call.kwargs)
    if call.pick is None:
        return result, []

    tensors = _tensors((call.args, call.kwargs))
    if isinstance(call.function, torch.nn.Module):
        tensors += call.function.parameters()
    leaves = [tensor for tensor in tensors if tensor.requires_grad]
    return result, _gradients(call.pick(result), leaves)


def _gradients(result: Any, leaves: list[Tensor]) -> list:
    """Return the gradients of `leaves`, with a random cotangent for each result."""
    results = [tensor for tensor in _tensors(result) if tensor.requires_grad]
    if not results or not leaves:
        return []
    generator = torch.Generator().manual_seed(SEED)
    cotangents = []
    for tensor in results:
        drawn = torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        cotangents.append(drawn.to(tensor.device))
    return list(torch.autograd.grad(results, leaves, cotangents, allow_unused=True))


def survey_module(info: Any, device: str) -> int:
    """Run the samples of one module on `device` and on the CPU; return their number.

    Raises AssertionError where they differ, and whatever the module raises on `device`.
    """
    number = 0
    for training in (True, False):
        _seed()
        samples = info.module_inputs_func(
            info,
            device=device,
            dtype=torch.float32,
            requires_grad=True,
            training=training,
        )
        for sample in samples:
            if sample.forward_input is None:
                continue
            number += 1
            build = sample.constructor_input
            module = info.module_cls(*build.args, **build.kwargs)
            module.to(device, torch.float32).train(training)
            inputs = sample.forward_input
            _compare(Call(module, inputs.args, inputs.kwargs, _whole), device)
    return number


def _whole(result: Any) -> Any:
    """Return all of a result: every part of a module's may have a gradient."""
    return result


def home(arguments: Any) -> Any:
    """Return arguments for the CPU: tensors copied, once each, and devices renamed."""
    copies: dict[int, Tensor] = {}

    def move(value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in copies:
                moved = _copied(value)
                copies[id(value)] = moved.requires_grad_(value.requires_grad)
            return copies[id(value)]
        if isinstance(value, torch.nn.Module):
            return copy.deepcopy(value).cpu()
        if isinstance(value, torch.device) and value.type in TYPES:
            return torch.device("cpu")
        if isinstance(value, str) and value.partition(":")[0] in TYPES:
            return "cpu"
        return value

    return tree_map(move, arguments)


def _copied(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU; one of a part of a storage is such a part too."""
    source = tensor.detach()
    if source.layout is not torch.strided or source.is_conj() or source.is_neg():
        return source.cpu().clone()
    held = source.untyped_storage().nbytes()
    if held == source.numel() * source.element_size():
        return source.cpu().clone()

    # `as_strided` reaches the rest of the storage.
    everything = source.as_strided((held // source.element_size(),), (1,), 0).cpu()
    return everything.as_strided(
        source.size(), source.stride(), source.storage_offset()
    )


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def _agree(part: str, got: Any, expected: Any, device: str, values: bool) -> None:
    """Raise AssertionError unless both hold the same, `got` on `device`."""
    ours, theirs = tree_flatten(got)[0], tree_flatten(expected)[0]
    assert len(ours) == len(theirs), (
        f"{part}: {len(ours)} values, {len(theirs)} on the CPU"
    )
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, Tensor):
            _agree_tensors(part, mine, other, device, values)
        elif not isinstance(other, torch.device | torch.Generator):
            both_nan = mine != mine
            assert mine == other or both_nan, f"{part}: {mine!r}, {other!r} on the CPU"


def _agree_tensors(
    part: str, got: Tensor, expected: Tensor, device: str, values: bool
) -> None:
    assert str(got.device) == device, f"{part} on {got.device}"
    for name in ("shape", "dtype"):
        mine, other = getattr(got, name), getattr(expected, name)
        assert mine == other, f"{part}: {mine}, {other} on the CPU"
    if values:
        torch.testing.assert_close(got.cpu(), expected, equal_nan=True)


def survey_one(kind: str, name: str, databases: Databases, device: str) -> Verdict:
    """Survey one operator or module, by name."""
    if name.startswith(CUDA_ONLY):
        return Verdict(kind, name, "skipped", "CUDA source, which no CPU runs")

    samples, outcome, reason = 0, "passed", ""
    run = survey_operator if kind == "operator" else survey_module
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = run(databases[kind][name], device)
    except Exception as error:  # whatever it is: the survey looks for errors
        outcome = "failed"
        reason = f"{type(error).__name__}: {str(error).strip()[:400]}"
    if outcome == "passed" and not samples:
        outcome, reason = "skipped", "no samples for float32"
    if outcome == "failed" and name in EXPECTED:
        outcome, reason = "expected", EXPECTED[name]
    return Verdict(kind, name, outcome, reason)


def _work(connection: Connection, device: str) -> None:
    """A worker: survey each (kind, name) that arrives, until None does."""
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")  # operators may print
    with cudasim.simulate(force=True, device_type=device.partition(":")[0]):
        databases = load_databases()
        while (task := connection.recv()) is not None:
            connection.send(survey_one(*task, databases, device))


class Worker:
    """A process that surveys one thing at a time, and may crash or hang."""

    def __init__(self, device: str) -> None:
        """Start it; it is ready when its databases are loaded."""
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, device), daemon=True)
        self.process.start()
        other.close()
        self.task: tuple[str, str] | None = None
        self.seconds = self.deadline = 0.0

    def give(self, task: tuple[str, str], seconds: float) -> None:
        """Let it survey `task`, for `seconds` at most."""
        self.connection.send(task)
        self.task = task
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds

    def verdict(self, ready: bool) -> Verdict | None:
        """Return the verdict on its task, `ready` to be read; None while it works.

        A worker that has crashed or is late has failed its task.
        """
        reason = None
        if time.monotonic() > self.deadline:
            reason = f"took more than {self.seconds:.0f} s"
        if ready:
            try:
                return self.connection.recv()
            except (EOFError, ConnectionResetError):
                self.process.join()
                reason = f"its process ended with code {self.process.exitcode}"
        if reason is None:
            return None

        self.stop()
        kind, name = self.task
        if name in EXPECTED:
            return Verdict(kind, name, "expected", EXPECTED[name])
        return Verdict(kind, name, "failed", reason)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def survey(
    tasks: Iterable[tuple[str, str]],
    device: str = "cuda:1",
    processes: int = 2,
    seconds: float = TIME_LIMIT,
) -> Iterator[Verdict]:
    """Survey (kind, name) pairs in `processes` processes; yield a verdict for each.

    `seconds` is the limit for each of them; a process that crashes or is late is replaced.
    """
    waiting = list(reversed(list(tasks)))
    workers = [Worker(device) for _ in range(min(processes, len(waiting)))]
    try:
        while waiting or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.give(waiting.pop(), seconds)

            busy = [worker for worker in workers if worker.task]
            ready = wait([worker.connection for worker in busy], timeout=1)
            for worker in busy:
                verdict = worker.verdict(worker.connection in ready)
                if verdict is None:
                    continue
                if worker.connection.closed:
                    workers[workers.index(worker)] = Worker(device)
                worker.task = None
                yield verdict
    finally:
        for worker in workers:
            worker.stop()


def summary(verdicts: list[Verdict]) -> dict[str, dict[str, float]]:
    """Return counts and the percentage that passed, for operators and for modules.

    What has no samples is not counted; what is expected to fail counts as not passed.
    """
    table = {}
    for kind in ("operator", "module"):
        outcomes = [verdict.outcome for verdict in verdicts if verdict.kind == kind]
        counts = {}
        for outcome in ("passed", "failed", "expected", "skipped"):
            counts[outcome] = outcomes.count(outcome)
        total = len(outcomes) - counts["skipped"]
        percent = round(100 * counts["passed"] / total, 2) if total else 0.0
        table[kind] = {**counts, "total": total, "percent": percent}
    return table


def _progress(verdicts: Iterator[Verdict], total: int) -> Iterator[Verdict]:
    """Show a bar where tqdm is installed, else a line now and then."""
    if importlib.util.find_spec("tqdm"):
        from tqdm import tqdm

        yield from tqdm(verdicts, total=total, unit="op", mininterval=1)
        return
    for number, verdict in enumerate(verdicts, 1):
        if number % 50 == 0 or number == total:
            print(f"{number} of {total}", file=sys.stderr)
        yield verdict


def choose(
    databases: Databases, stride: int = 1, only: str = ""
) -> list[tuple[str, str]]:
    """Return every `stride`-th (kind, name), of those with `only` in their name."""
    tasks = []
    for kind, entries in databases.items():
        tasks += [(kind, name) for name in entries if only in name]
    return tasks[::stride]


def run(
    device: str, stride: int = 1, only: str = "", processes: int = 2
) -> dict[str, Any]:
    """Survey, print progress and figures; return torch, python, summary and verdicts."""
    tasks = choose(load_databases(), stride, only)
    verdicts = list(_progress(survey(tasks, device, processes), len(tasks)))

    not_passed = [verdict for verdict in verdicts if verdict.outcome != "passed"]
    not_passed.sort(key=lambda verdict: (verdict.outcome, verdict.kind, verdict.name))
    for verdict in not_passed:
        reason = " ".join(verdict.reason.split())
        print(f"{verdict.outcome}: {verdict.kind} {verdict.name}: {reason}")

    python = sys.version.split()[0]
    print(f"torch {torch.__version__}, Python {python}, {device}")
    table = summary(verdicts)
    for kind, row in table.items():
        print(
            f"{kind}s: {row['passed']} of {row['total']} pass ({row['percent']} %), "
            f"{row['expected']} exceptions, {row['failed']} failures"
        )
    return {
        "torch": torch.__version__,
        "python": python,
        "summary": table,
        "verdicts": verdicts,
    }
