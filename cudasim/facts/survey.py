"""A survey of the simulation against PyTorch's own databases of operators and modules.

It runs every operator of `op_db` that has float32 samples and every
module of `module_db`, forward and backward, on a simulated GPU and on the CPU. Values must
be the same, and every result and gradient must live where its operands do.

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
from dataclasses import asdict, dataclass
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

# Exceptions that are known, each with its reason.
NO_PIVOTS = "samples for CUDA factor without pivots, which PyTorch's CPU kernels cannot"
CPU_ALONE = "PyTorch has it for the CPU alone: refused here as on CUDA"
EXPECTED = {
    **dict.fromkeys(
        ("linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"), NO_PIVOTS
    ),
    **dict.fromkeys(("histogram", "histogramdd"), CPU_ALONE),
}

# Names that begin so compile CUDA source: there is nothing on the CPU to compare with.
CUDA_ONLY = "jiterator"


@dataclass
class Verdict:
    """What became of one operator or module: `outcome` is passed, failed, expected or skipped."""

    kind: str
    name: str
    outcome: str
    reason: str
    samples: int
    seconds: float


def load_databases() -> tuple[dict[str, Any], dict[str, Any]]:
    """The operators and the modules of torch's own tests, by name.

    They import `expecttest`, of which they need only a base class of test cases; where it is
    not installed, `unittest`'s stands in. They would freeze the settings of torch's libraries.
    """
    if importlib.util.find_spec("expecttest") is None:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    thawed = patch.object(torch.backends, "disable_global_flags", lambda: None)
    with warnings.catch_warnings(), thawed:
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.common_modules import module_db
    if getattr(sys.modules["expecttest"], "__spec__", None) is None:
        del sys.modules["expecttest"]  # so that nobody else takes it for the real one
    operators = {_full_name(op): op for op in op_db if torch.float32 in op.dtypes}
    return operators, {info.name: info for info in module_db}


def _full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def survey_operator(op: Any, device: str) -> int:
    """Run the samples of one operator on `device` and on the CPU; returns how many there were.

    Raises AssertionError where they differ, and whatever the operator raises on `device`.
    """
    count = 0
    grad = op.supports_autograd
    _seed()
    for sample in op.sample_inputs(device, torch.float32, requires_grad=grad):
        count += 1
        arguments = (sample.input, *sample.args), sample.kwargs
        keep = sample.output_process_fn_grad if grad else None
        where = _home_of(*arguments, device)
        on_cpu = op, *home(arguments), keep
        _compare((op, *arguments, keep), on_cpu, where, op.name not in UNINITIALISED)
    return count


def _seed() -> None:
    torch.manual_seed(SEED)


class _Draws:
    """Sees whether random numbers are drawn: a GPU's are not those of the CPU."""

    random = False

    def __enter__(self) -> "_Draws":
        self.draw = draw = Generator.draw

        def noting(generator: Generator) -> torch.Generator:
            self.random = True
            return draw(generator)

        Generator.draw = noting  # an offset would not do: some samples put it back
        return self

    def __exit__(self, *error: object) -> None:
        Generator.draw = self.draw


def _home_of(args: tuple, kwargs: dict, device: str) -> str:
    """Where a sample's results live: on the device that is named, or on that of its tensors."""
    if (named := kwargs.get("device")) is not None:
        return str(torch.empty(0, device=named).device)  # `cuda` is the current one
    return (
        device
        if any(t.device.type in TYPES for t in _tensors((args, kwargs)))
        else "cpu"
    )


def _compare(ours: tuple, theirs: tuple, device: str, values: bool = True) -> None:
    """Raise AssertionError unless two calls of `_outcome` agree, random values excepted."""
    expected = _outcome(*theirs)
    with _Draws() as draws:
        got = _outcome(*ours)
    _agree(got, expected, device, values and not draws.random)


def _outcome(
    call: Callable, args: tuple, kwargs: dict, keep: Callable | None
) -> tuple[Any, list]:
    """(result, gradients) of an operator or a module; `keep` picks what has a gradient."""
    _seed()
    result = call(*args, **kwargs)
    parameters = call.parameters() if isinstance(call, torch.nn.Module) else ()
    leaves = [
        leaf for leaf in (*_tensors((args, kwargs)), *parameters) if leaf.requires_grad
    ]
    return result, _gradients(keep(result), leaves) if keep else []


def _gradients(result: Any, leaves: list[Tensor]) -> list:
    """The gradients of `leaves`, with one random cotangent for each result that has a gradient."""
    results = [each for each in _tensors(result) if each.requires_grad]
    if not results or not leaves:
        return []
    generator = torch.Generator().manual_seed(SEED)
    cotangents = [
        torch.randn(each.shape, dtype=each.dtype, generator=generator).to(each.device)
        for each in results
    ]
    return list(torch.autograd.grad(results, leaves, cotangents, allow_unused=True))


def survey_module(info: Any, device: str) -> int:
    """Run the samples of one module on `device` and on the CPU; returns how many there were.

    Raises AssertionError where they differ, and whatever the module raises on `device`.
    """
    count = 0
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
            count += 1
            build, call = sample.constructor_input, sample.forward_input
            module = info.module_cls(*build.args, **build.kwargs).to(
                device, torch.float32
            )
            module.train(training)
            arguments = call.args, call.kwargs
            on_cpu = copy.deepcopy(module).cpu(), *home(arguments), _whole
            _compare((module, *arguments, _whole), on_cpu, device)
    return count


def _whole(result: Any) -> Any:
    """All of a result: every part of a module's may have a gradient."""
    return result


def home(arguments: Any) -> Any:
    """The same arguments on the CPU: tensors copied (once each), devices renamed."""
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
    """A copy on the CPU; one of a part of a storage is such a part too, for `as_strided`."""
    source = tensor.detach()
    whole = source.layout is not torch.strided or source.is_conj() or source.is_neg()
    if (
        whole
        or source.untyped_storage().nbytes() == source.numel() * source.element_size()
    ):
        return source.cpu().clone()
    count = source.untyped_storage().nbytes() // source.element_size()
    everything = source.as_strided((count,), (1,), 0).cpu()
    return everything.as_strided(
        source.size(), source.stride(), source.storage_offset()
    )


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def _agree(got: Any, expected: Any, device: str, compare: bool = True) -> None:
    """Raise AssertionError unless both hold the same, `got` on `device`."""
    for part, ours, theirs in zip(("result", "gradient"), got, expected, strict=True):
        ours, theirs = tree_flatten(ours)[0], tree_flatten(theirs)[0]
        assert len(ours) == len(theirs), (
            f"{part}: {len(ours)} values, {len(theirs)} on the CPU"
        )
        for mine, other in zip(ours, theirs, strict=True):
            if not isinstance(other, Tensor):
                if isinstance(other, torch.device | torch.Generator):
                    continue
                assert mine == other or mine != mine, (
                    f"{part}: {mine!r}, {other!r} on the CPU"
                )
                continue
            assert str(mine.device) == device, f"{part} on {mine.device}"
            assert mine.shape == other.shape, (
                f"{part}: {mine.shape}, {other.shape} on the CPU"
            )
            assert mine.dtype == other.dtype, (
                f"{part}: {mine.dtype}, {other.dtype} on the CPU"
            )
            if compare:
                torch.testing.assert_close(mine.cpu(), other, equal_nan=True)


def survey_one(
    kind: str, name: str, databases: tuple[dict, dict], device: str
) -> Verdict:
    """Survey one operator or module, by name."""
    start = time.perf_counter()
    samples, outcome, reason = 0, "passed", ""
    if name.startswith(CUDA_ONLY):
        return Verdict(kind, name, "skipped", "CUDA source, which no CPU runs", 0, 0.0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "operator":
                samples = survey_operator(databases[0][name], device)
            else:
                samples = survey_module(databases[1][name], device)
        if not samples:
            outcome, reason = "skipped", "no samples for float32"
    except (
        Exception
    ) as error:  # whatever an operator raises is what the survey is after
        outcome, reason = (
            "failed",
            f"{type(error).__name__}: {str(error).strip()[:400]}",
        )
    if outcome == "failed" and name in EXPECTED:
        outcome, reason = "expected", EXPECTED[name]
    return Verdict(kind, name, outcome, reason, samples, time.perf_counter() - start)


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
        self.deadline = 0.0

    def give(self, task: tuple[str, str], seconds: float) -> None:
        """Let it survey `task`, for `seconds` at most."""
        self.connection.send(task)
        self.task, self.deadline = task, time.monotonic() + seconds

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
    """Survey (kind, name) pairs in `processes` processes; yields a verdict for each.

    `seconds` is the limit for each of them; a process that crashes or is late is replaced.
    """
    waiting = list(reversed(list(tasks)))
    workers = [Worker(device) for _ in range(min(processes, len(waiting)))]
    try:
        while waiting or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.give(waiting.pop(), seconds)
            ready = wait(
                [worker.connection for worker in workers if worker.task], timeout=1
            )
            for position, worker in enumerate(workers):
                if worker.task is None:
                    continue
                late = time.monotonic() > worker.deadline
                reason = f"took more than {seconds:.0f} s" if late else None
                if worker.connection in ready:
                    try:
                        yield worker.connection.recv()
                        worker.task = None
                        continue
                    except (EOFError, ConnectionResetError):
                        worker.process.join()
                        reason = (
                            f"its process ended with code {worker.process.exitcode}"
                        )
                if reason:
                    kind, name = worker.task
                    worker.stop()
                    workers[position] = Worker(device)
                    outcome = "expected" if name in EXPECTED else "failed"
                    yield Verdict(
                        kind, name, outcome, EXPECTED.get(name, reason), 0, seconds
                    )
    finally:
        for worker in workers:
            worker.stop()


def summary(verdicts: list[Verdict]) -> dict[str, dict[str, float]]:
    """Counts and the percentage that passed, for operators and for modules.

    What has no samples is not counted; what is expected to fail counts as not passed.
    """
    table = {}
    for kind in ("operator", "module"):
        of_kind = [verdict for verdict in verdicts if verdict.kind == kind]
        counts = {
            outcome: sum(verdict.outcome == outcome for verdict in of_kind)
            for outcome in ("passed", "failed", "expected", "skipped")
        }
        total = len(of_kind) - counts["skipped"]
        percent = round(100 * counts["passed"] / total, 2) if total else 0.0
        table[kind] = {**counts, "total": total, "percent": percent}
    return table


def _progress(verdicts: Iterator[Verdict], total: int) -> Iterator[Verdict]:
    """A bar where tqdm is installed, else a line now and then."""
    if importlib.util.find_spec("tqdm"):
        from tqdm import tqdm

        yield from tqdm(verdicts, total=total, unit="op", mininterval=1)
        return
    for number, verdict in enumerate(verdicts, 1):
        if number % 50 == 0 or number == total:
            print(f"{number} of {total}", file=sys.stderr)
        yield verdict


def chosen(
    databases: tuple[dict, dict], stride: int = 1, only: str = ""
) -> list[tuple[str, str]]:
    """Every `stride`-th (kind, name) of the databases, of those with `only` in their name."""
    pairs = zip(("operator", "module"), databases, strict=True)
    return [(kind, name) for kind, names in pairs for name in names if only in name][
        ::stride
    ]


def run(
    device: str, stride: int = 1, only: str = "", processes: int = 2
) -> dict[str, Any]:
    """The survey with its progress and its figures printed: torch, python, summary, verdicts."""
    tasks = chosen(load_databases(), stride, only)
    verdicts = list(_progress(survey(tasks, device, processes), len(tasks)))
    for verdict in sorted(
        verdicts, key=lambda each: (each.outcome, each.kind, each.name)
    ):
        if verdict.outcome != "passed":
            reason = " ".join(verdict.reason.split())
            print(f"{verdict.outcome}: {verdict.kind} {verdict.name}: {reason}")
    found = {"torch": torch.__version__, "python": sys.version.split()[0]}
    print(f"torch {found['torch']}, Python {found['python']}, {device}")
    found["summary"] = summary(verdicts)
    for kind, row in found["summary"].items():
        print(
            f"{kind}s: {row['passed']} of {row['total']} pass ({row['percent']} %), "
            f"{row['expected']} exceptions, {row['failed']} failures"
        )
    found["verdicts"] = [asdict(verdict) for verdict in verdicts]
    return found
