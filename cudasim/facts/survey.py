"""A survey of the simulation against PyTorch's own databases of operators and modules.

It runs every operator of `op_db` that has float32 samples, and every module of `module_db`,
forward and backward, on a simulated GPU and on the CPU. Values must be the same, and every
result and gradient must live where its operands do.

The databases are in `torch.testing._internal.common_methods_invocations` and `common_modules`.
They are written for PyTorch's own tests, come with torch and may change with it.
"""

import copy
import importlib.util
import multiprocessing
import os
import platform
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
from torch.utils._pytree import tree_leaves, tree_map

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

# Differences that are allowed where another kernel of the CPU computes. Attention on the CPU
# takes the kernel `math`, as the masks of its samples need gradients. Their numbers go up to
# 9, and each kernel is 1e-5 off what float64 gives. PyTorch's database allows 5e-5 for
# results (`toleranceOverride`), and gradients are sums of several.
TOLERANCES = {"nn.functional.scaled_dot_product_attention": 1e-4}

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

    The databases only need its base class for test cases, and that of `unittest` will do.
    Afterwards the stand-in is removed, so that no other code takes it for the real module.
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
    if op.variant_test_name:
        return f"{op.name}.{op.variant_test_name}"
    return op.name


@dataclass
class Call:
    """An operator or a module, with the arguments of a sample."""

    function: Callable
    args: tuple
    kwargs: dict[str, Any]
    # Returns the part of a result that has a gradient; None if there is no gradient.
    pick: Callable | None
    # The absolute difference that is allowed; None is that of `assert_close`.
    tolerance: float | None = None

    def on_cpu(self) -> "Call":
        """Return the same call on the CPU."""
        function, args, kwargs = on_cpu((self.function, self.args, self.kwargs))
        return Call(function, args, kwargs, self.pick)

    def tensors(self) -> list[Tensor]:
        """Return the tensors among the arguments."""
        return _tensors((self.args, self.kwargs))


def survey_operator(op: Any, device: str) -> int:
    """Run the samples of one operator on `device` and on the CPU; return their number.

    Raises AssertionError where they differ, and whatever the operator raises on `device`.
    """
    number = 0
    has_gradient = op.supports_autograd
    has_values = op.name not in UNINITIALISED
    _seed()
    for sample in op.sample_inputs(device, torch.float32, requires_grad=has_gradient):
        number += 1
        args = (sample.input, *sample.args)
        pick = sample.output_process_fn_grad if has_gradient else None
        call = Call(op, args, sample.kwargs, pick, TOLERANCES.get(full_name(op)))
        _compare(call, _expected_device(call, device), has_values)
    return number


def _seed() -> None:
    torch.manual_seed(SEED)


class _Draws:
    """Notices whether random numbers are drawn: those of a GPU differ from the CPU's."""

    random = False

    def __enter__(self) -> "_Draws":
        self.draw = Generator.draw

        def noting(generator: Generator) -> torch.Generator:
            self.random = True
            return self.draw(generator)

        # Comparing offsets would not do: some samples restore them.
        Generator.draw = noting
        return self

    def __exit__(self, *error: object) -> None:
        Generator.draw = self.draw


def _expected_device(call: Call, device: str) -> str:
    """Return where results must live: on the device that is named, or with the operands."""
    named = call.kwargs.get("device")
    if named is not None:
        # A plain `cuda` means the current GPU.
        return str(torch.empty(0, device=named).device)
    if any(tensor.device.type in TYPES for tensor in call.tensors()):
        return device
    return "cpu"


def _compare(call: Call, device: str, values: bool = True) -> None:
    """Raise AssertionError unless a call agrees with the same on the CPU.

    Values that are random, or not set by the operator, are not compared.
    """
    expected, expected_gradients = _outcome(call.on_cpu())
    with _Draws() as draws:
        result, gradients = _outcome(call)
    comparison = _Comparison(device, values and not draws.random, call.tolerance)
    comparison.agree("result", result, expected)
    comparison.agree("gradient", gradients, expected_gradients)


def _outcome(call: Call) -> tuple[Any, list]:
    """Return the result of a call, and its gradients."""
    _seed()
    result = call.function(*call.args, **call.kwargs)
    if call.pick is None:
        return result, []

    tensors = call.tensors()
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
    """Return the whole result of a module: every part of it may have a gradient."""
    return result


def on_cpu(arguments: Any) -> Any:
    """Return arguments for the CPU: tensors and modules copied, and devices renamed.

    A tensor that occurs twice is copied once.
    """
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
    """Return a copy on the CPU; the copy of a view is a view of a copied storage."""
    source = tensor.detach()
    if source.layout is not torch.strided or source.is_conj() or source.is_neg():
        return source.cpu().clone()
    length = source.untyped_storage().nbytes() // source.element_size()
    if length == source.numel():
        return source.cpu().clone()

    # `as_strided` reaches the rest of the storage.
    everything = source.as_strided((length,), (1,), 0).cpu()
    offset = source.storage_offset()
    return everything.as_strided(source.size(), source.stride(), offset)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


@dataclass
class _Comparison:
    """What a call returned on `device`, against the same on the CPU."""

    device: str
    values: bool  # whether they are compared, and not shapes and devices alone
    tolerance: float | None

    def agree(self, part: str, result: Any, expected: Any) -> None:
        """Raise AssertionError unless both hold the same, `result` on the device."""
        ours = tree_leaves(result)
        theirs = tree_leaves(expected)
        counts = f"{len(ours)} values, {len(theirs)} on the CPU"
        assert len(ours) == len(theirs), f"{part}: {counts}"

        for our, their in zip(ours, theirs, strict=True):
            if isinstance(their, Tensor):
                self._agree_tensors(part, our, their)
            elif not isinstance(their, torch.device | torch.Generator):
                is_nan = our != our
                values_of_both = f"{our!r}, {their!r} on the CPU"
                assert our == their or is_nan, f"{part}: {values_of_both}"

    def _agree_tensors(self, part: str, result: Tensor, expected: Tensor) -> None:
        assert str(result.device) == self.device, f"{part} on {result.device}"
        for name in ("shape", "dtype"):
            our = getattr(result, name)
            their = getattr(expected, name)
            assert our == their, f"{part}: {our}, {their} on the CPU"
        if not self.values:
            return

        rtol = None if self.tolerance is None else 0.0
        torch.testing.assert_close(
            result.cpu(), expected, rtol=rtol, atol=self.tolerance, equal_nan=True
        )


def survey_one(kind: str, name: str, databases: Databases, device: str) -> Verdict:
    """Survey one operator or module, by name."""
    if name.startswith(CUDA_ONLY):
        return Verdict(kind, name, "skipped", "CUDA source, which no CPU runs")

    run = survey_operator if kind == "operator" else survey_module
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = run(databases[kind][name], device)
    except Exception as error:  # whatever it is: the survey looks for errors
        message = str(error).strip()[:400]
        return _failure(kind, name, f"{type(error).__name__}: {message}")
    if not samples:
        return Verdict(kind, name, "skipped", "no samples for float32")
    return Verdict(kind, name, "passed", "")


def _failure(kind: str, name: str, reason: str) -> Verdict:
    """Return the verdict on what failed, which may have been expected."""
    if name in EXPECTED:
        return Verdict(kind, name, "expected", EXPECTED[name])
    return Verdict(kind, name, "failed", reason)


def _work(connection: Connection, device: str) -> None:
    """Survey each (kind, name) that arrives, until None does. This is a worker's process."""
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")  # operators may print
    with cudasim.simulate(force=True, device_type=device.partition(":")[0]):
        databases = load_databases()
        while (task := connection.recv()) is not None:
            connection.send(survey_one(*task, databases, device))


class Worker:
    """A process that surveys one thing at a time, and may crash or hang."""

    def __init__(self, device: str) -> None:
        """Start the process; it takes tasks once its databases are loaded."""
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, device), daemon=True)
        self.process.start()
        other.close()
        self.task: tuple[str, str] | None = None
        self.seconds = 0.0
        self.deadline = 0.0

    def start(self, task: tuple[str, str], seconds: float) -> None:
        """Begin to survey `task`, for `seconds` at most."""
        self.connection.send(task)
        self.task = task
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds

    def verdict(self, ready: bool) -> Verdict | None:
        """Return the verdict on the task, if it is `ready` to be read; None while it runs.

        A process that has crashed or is late has failed its task, and is ended.
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
        return _failure(kind, name, reason)

    def stop(self) -> None:
        """End the process."""
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

    Each may take `seconds`. A process that crashes or is late is replaced.
    """
    waiting = list(tasks)
    waiting.reverse()  # the next one is taken from the end
    number = min(processes, len(waiting))
    workers = [Worker(device) for _ in range(number)]
    try:
        while waiting or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.start(waiting.pop(), seconds)

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

    Those without samples are not counted; those that are expected to fail have not passed.
    """
    table = {}
    for kind in ("operator", "module"):
        outcomes = [verdict.outcome for verdict in verdicts if verdict.kind == kind]
        counts = {}
        for outcome in ("passed", "failed", "expected", "skipped"):
            counts[outcome] = outcomes.count(outcome)

        total = len(outcomes) - counts["skipped"]
        percent = 0.0
        if total:
            percent = round(100 * counts["passed"] / total, 2)
        table[kind] = {**counts, "total": total, "percent": percent}
    return table


def _progress(verdicts: Iterator[Verdict], total: int) -> Iterator[Verdict]:
    """Show a progress bar if tqdm is installed, otherwise a line now and then."""
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
    """Return every `stride`-th (kind, name) of those with `only` in their name."""
    tasks = []
    for kind, entries in databases.items():
        tasks += [(kind, name) for name in entries if only in name]
    return tasks[::stride]


def run(
    device: str, stride: int = 1, only: str = "", processes: int = 2
) -> dict[str, Any]:
    """Survey, print progress and figures; return torch, python, summary and verdicts."""
    tasks = choose(load_databases(), stride, only)
    running = survey(tasks, device, processes)
    verdicts = list(_progress(running, len(tasks)))
    _print_not_passed(verdicts)

    python = platform.python_version()
    print(f"torch {torch.__version__}, Python {python}, {device}")
    table = summary(verdicts)
    for kind, row in table.items():
        share = f"{row['percent']} %"
        passed = f"{row['passed']} of {row['total']} pass ({share})"
        others = f"{row['expected']} exceptions, {row['failed']} failures"
        print(f"{kind}s: {passed}, {others}")
    return {
        "torch": torch.__version__,
        "python": python,
        "summary": table,
        "verdicts": verdicts,
    }


def _print_not_passed(verdicts: list[Verdict]) -> None:
    lines = []
    for verdict in verdicts:
        if verdict.outcome != "passed":
            subject = f"{verdict.kind} {verdict.name}"
            reason = " ".join(verdict.reason.split())
            lines.append(f"{verdict.outcome}: {subject}: {reason}")
    for line in sorted(lines):
        print(line)
