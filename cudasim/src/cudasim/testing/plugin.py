"""The plugin that pytest loads.

Without an option and a marker it does nothing, and imports no torch.
"""

import argparse
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from cudasim.testing import IN_RANK, markers

if TYPE_CHECKING:
    from cudasim.config import Config
    from cudasim.testing.gpus import Gpus

GPUS = "--simulated-gpus"
CARD = "--simulated-card"
TYPE = "--simulated-device-type"
CLOCK = "--simulated-clock"
RACES = "--simulated-races"
FORCE = "--simulated-force"
FULL = "--simulated-full-traceback"

# Properties in a test's report.
RAN = "gpus"
LACKED = "lacked gpus"

MARKERS = (
    "gpus(n, memory=None): the test needs n GPUs; of each it may take `memory`, such as "
    "'1GiB'. It is skipped where there are fewer.",
    f"world(n, gpus=n, timeout={markers.PATIENCE}): the test runs in n processes, one a "
    "rank, each with the environment that torchrun gives it; it needs as many GPUs, or "
    "`gpus`, and may take `timeout` seconds.",
)

announcement = pytest.StashKey[str]()  # the line with which the simulation began
wanted = pytest.StashKey["Config | None"]()
leads = pytest.StashKey[bool]()  # whether workers of pytest-xdist run the tests
WORKER = "PYTEST_XDIST_WORKER"  # the variable that pytest-xdist sets in its workers
LEADER = "CUDASIM_PYTEST_LEADER"  # the process that leads them


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cudasim", "simulated GPUs")
    group.addoption(GPUS, metavar="N", help="let the tests see N simulated GPUs")
    group.addoption(CARD, metavar="NAME", help="which card they are (T4)")
    group.addoption(TYPE, metavar="TYPE", help="cuda or mps (cuda)")
    about = "modelled: the tests see the times of the card's data sheet"
    group.addoption(CLOCK, metavar="CLOCK", help=about)
    about = "warn or raise: look for data races between streams"
    group.addoption(RACES, metavar="ACTION", help=about)
    group.addoption(FORCE, action="store_true", help="even where as many real GPUs are")
    about = "show the simulator's own lines in tracebacks"
    group.addoption(FULL, action="store_true", help=about)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin the simulation before a `conftest.py` is imported, which may ask for GPUs.

    With pytest-xdist it begins in each worker, and not in the process that leads them.
    """
    config = early_config
    wish = _read_options(config.known_args_namespace)
    config.stash[wanted] = wish
    if wish is None:
        if _is_simulating():
            config.stash[announcement] = (
                "cudasim: GPUs were simulated before pytest began"
            )
        return
    config.stash[leads] = _leads_workers(config)
    if config.stash[leads]:
        return
    try:
        from cudasim import installed

        installed.check_torch()
        from cudasim import simulation

        begun = simulation.begin(wish)
    except (ImportError, ValueError, RuntimeError) as error:  # no torch, for instance
        raise pytest.UsageError(f"{GPUS}: {error}") from None
    config.stash[announcement] = begun or "cudasim: simulated by the environment"
    config.add_cleanup(simulation.disable)


def _is_simulating() -> bool:
    """Return whether a simulation runs, as in `python -m cudasim -m pytest`."""
    module = sys.modules.get("cudasim.session")
    return module is not None and module.session.mode is not None


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)


def _read_options(options: argparse.Namespace) -> "Config | None":
    number = options.simulated_gpus
    card = options.simulated_card
    type = options.simulated_device_type
    # As the command does it, a variable counts where there is no option.
    clock = options.simulated_clock or os.environ.get("CUDASIM_CLOCK") or None
    races = options.simulated_races or os.environ.get("CUDASIM_RACES") or None
    if number is None and card is None and type is None:
        alone = {
            FORCE: options.simulated_force,
            CLOCK: options.simulated_clock,
            RACES: options.simulated_races,
        }
        for option, value in alone.items():
            if value:
                raise pytest.UsageError(f"{option}: say with {GPUS} how many GPUs")
        return None
    from cudasim.config import Source, parse

    source = Source(GPUS, TYPE)
    force = options.simulated_force
    try:
        wish = parse(number, card, type, force, source, clock, races)
        wish.find_card()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return wish


def _leads_workers(config: pytest.Config) -> bool:
    """Return whether this process leaves the tests to workers of pytest-xdist.

    A worker has the same options. It is known by its parent: the variables alone are
    inherited by a pytest that one of its tests starts, too.
    """
    options = config.known_args_namespace
    has_workers = getattr(options, "numprocesses", None) or getattr(options, "tx", None)
    if not has_workers:
        return False
    if WORKER in os.environ and os.environ.get(LEADER) == str(os.getppid()):
        return False
    os.environ[LEADER] = str(os.getpid())
    return True


def pytest_report_header(config: pytest.Config) -> str | None:
    wish = config.stash[wanted]
    if wish is not None and config.stash[leads]:
        gpus = f"{wish.gpus} GPUs; {wish.find_card().name}, simulated, where none are"
        return f"cudasim: each worker has {gpus}"
    if announcement in config.stash:
        return config.stash[announcement]
    has_gpu = sys.platform == "darwin" or shutil.which("nvidia-smi")
    return None if has_gpu else f"cudasim: idle; {GPUS}=2 simulates GPUs"


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    _exempt_warnings(session.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    _exempt_warnings(item.config)


def _exempt_warnings(config: pytest.Config) -> None:
    """Let warnings about the simulation fail no test: pytest has set its filters afresh."""
    if announcement in config.stash:
        from cudasim.notices import exempt_from_errors

        exempt_from_errors()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs more GPUs than are here; give it fresh ones otherwise."""
    own = markers.read(item, markers.gpus)
    world = markers.read(item, markers.world)
    memory = own.memory if own else None
    in_rank = IN_RANK in os.environ
    if in_rank and memory is None:
        return  # the process is new, and the one that started it has counted the GPUs

    number = int("gpus" in getattr(item, "fixturenames", ()))
    if own:
        number = max(number, own.gpus)
    if world:
        number = max(number, world.gpus)
    if number or announcement in item.config.stash:
        _renew(item, number, memory)
    if world and not in_rank:
        from cudasim.testing.world import spread

        spread(item, world.ranks, world.timeout)


def _renew(item: pytest.Item, number: int, memory: int | None) -> None:
    """Make the GPUs fresh, `memory` bytes of each; skip the test if they do not suffice."""
    from cudasim.testing.gpus import Gpus

    gpus = Gpus()
    lack = None
    if len(gpus) < number:
        advice = _how_to_get(number, item.config.stash[wanted])
        lack = f"needs {_count(number, 'GPU')}, {len(gpus)} here: {advice}"
    elif memory is not None and memory > min(gpu.memory for gpu in gpus):
        lack = f"needs {memory:,} bytes on each GPU, and there are fewer"
    if lack is not None:
        item.user_properties.append((LACKED, lack))
        pytest.skip(lack)
    item.user_properties.append((RAN, _describe(len(gpus))))
    gpus.renew(memory)


def _how_to_get(number: int, wish: "Config | None") -> str:
    if wish is not None and wish.gpus >= number:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides others"
    return f"{GPUS}={number} simulates them"


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> None:
    """Hide the simulator's lines where a file of tests cannot be imported."""
    if not _hides_lines(collector.config):
        return
    collect = collector.collect

    def collect_without_our_lines() -> Iterator[pytest.Item | pytest.Collector]:
        try:
            yield from collect()
        except BaseException as error:
            _hide_lines(error)
            raise

    collector.collect = collect_without_our_lines  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Hide the simulator's lines, so that the last one of a traceback is the test's."""
    if call.excinfo is None or not _hides_lines(item.config):
        return
    import doctest  # which takes long, and is needed for few runs

    error = call.excinfo.value
    _hide_lines(error)
    call.excinfo = pytest.ExceptionInfo.from_exception(error)
    for failure in getattr(error, "failures", [error]):
        # That of a doctest holds the error itself.
        if isinstance(failure, doctest.UnexpectedException):
            kind, unexpected, traceback = failure.exc_info
            _hide_lines(unexpected)
            shown = unexpected.__traceback__ or traceback
            failure.exc_info = kind, unexpected, shown


def _hides_lines(config: pytest.Config) -> bool:
    return announcement in config.stash and not config.getoption(FULL)


def _hide_lines(error: BaseException) -> None:
    from cudasim.tracebacks import hide_our_lines

    hide_our_lines(error, to_program=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let a rank leave its process group, if the test has not."""
    distributed = sys.modules.get("torch.distributed")
    if IN_RANK in os.environ and distributed and distributed.is_initialized():
        distributed.destroy_process_group()


def _describe(number: int) -> str:
    import torch

    from cudasim.session import session

    if session.mode is not None and session.machine is not None:
        noun = session.type.word(number)
        return f"{number} simulated {noun} ({session.machine.card.name})"
    module = torch.get_device_module()
    name = module.get_device_name(0) if hasattr(module, "get_device_name") else "MPS"
    return f"{number} real GPUs ({name})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@pytest.fixture
def gpus() -> "Gpus":
    """The GPUs, real or simulated: a list, with claims about blocks of code."""
    from cudasim.testing.gpus import Gpus

    return Gpus()


@pytest.fixture
def rank() -> int:
    """The number of this process in the world of `@pytest.mark.world(n)`."""
    if IN_RANK not in os.environ:
        pytest.fail("the fixture 'rank' needs @pytest.mark.world(n)", pytrace=False)
    return int(os.environ["RANK"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests ran on which GPUs, and how many were skipped without."""
    ran: Counter[str] = Counter()
    skipped = 0
    for report in chain.from_iterable(terminalreporter.stats.values()):
        properties = dict(getattr(report, "user_properties", ()))
        if RAN in properties and report.when == "call":
            ran[properties[RAN]] += 1
        if LACKED in properties and report.when == "setup":
            skipped += 1
    parts = [f"{_count(ran[gpus], 'test')} on {gpus}" for gpus in sorted(ran)]
    if skipped:
        parts.append(f"{skipped} skipped for want of GPUs")
    if parts:
        terminalreporter.write_line(f"cudasim: {'; '.join(parts)}")
