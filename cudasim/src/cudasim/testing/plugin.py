"""What pytest loads. Without an option and a marker it does nothing and imports no torch."""

import os
import sys
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from cudasim.testing import IN_RANK, markers

if TYPE_CHECKING:
    from cudasim.config import Config
    from cudasim.testing.gpus import Gpus

GPUS, CARD, TYPE = "--simulated-gpus", "--simulated-card", "--simulated-device-type"
FORCE = "--simulated-force"
RAN, LACKED = "gpus", "lacked gpus"  # properties of a test's report
said = pytest.StashKey[str]()  # the line with which the simulation began
wanted = pytest.StashKey["Config | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cudasim", "simulated GPUs")
    group.addoption(GPUS, metavar="N", help="let the tests see N simulated GPUs")
    group.addoption(CARD, metavar="NAME", help="which card they are (T4)")
    group.addoption(TYPE, metavar="TYPE", help="cuda or mps (cuda)")
    group.addoption(FORCE, action="store_true", help="even where as many real GPUs are")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the simulation before tests are collected; with pytest-xdist, in each worker."""
    for line in (
        "gpus(n, memory=None): the test needs n GPUs; of each it may take `memory`, such as "
        "'1GiB'. It is skipped where there are fewer.",
        f"world(n, gpus=n, timeout={markers.PATIENCE}): the test runs in n processes, one a rank, "
        "each with the environment that torchrun gives it; it needs as many GPUs, or `gpus`, and "
        "may take `timeout` seconds.",
    ):
        config.addinivalue_line("markers", line)
    asked = config.stash[wanted] = _asked(config)
    if asked is None or _leads_workers(config):
        return
    try:
        from cudasim import simulation

        begun = simulation.begin(asked)
    except (ImportError, ValueError, RuntimeError) as error:  # no torch, for instance
        raise pytest.UsageError(f"{GPUS}: {error}") from None
    config.stash[said] = begun or "cudasim: simulated by the environment"
    config.add_cleanup(simulation.disable)


def _asked(config: pytest.Config) -> "Config | None":
    number, card, type, force = map(config.getoption, (GPUS, CARD, TYPE, FORCE))
    if number is card is type is None:
        if force:
            raise pytest.UsageError(f"{FORCE}: say with {GPUS} how many GPUs")
        return None
    from cudasim.config import parse

    try:
        found = parse(number, card, type, force, source=(GPUS, TYPE))
        found.find_card()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return found


def _leads_workers(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None)) and not hasattr(
        config, "workerinput"
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    asked = config.stash[wanted]
    if asked is not None and _leads_workers(config):
        card = asked.find_card().name
        return f"cudasim: each worker has {asked.gpus} GPUs; {card}, simulated, where none are"
    return config.stash.get(said, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs more GPUs than are here; give it fresh ones otherwise."""
    number, memory = markers.read(item, markers.gpus) or (0, None)
    size, shared, timeout = markers.read(item, markers.world) or (0, 0, 0)
    in_rank = IN_RANK in os.environ
    if in_rank and memory is None:
        return  # the process is as fresh, and who started it has counted
    number = max(number, shared, int("gpus" in getattr(item, "fixturenames", ())))
    if number or said in item.config.stash:
        _renew(item, number, memory)
    if size and not in_rank:
        from cudasim.testing.world import spread

        spread(item, size, timeout)


def _renew(item: pytest.Item, number: int, memory: int | None) -> None:
    """Fresh GPUs, `memory` bytes of each; skips if there are fewer than `number`, or smaller."""
    from cudasim.testing.gpus import Gpus

    gpus, asked, lacks = Gpus(), item.config.stash[wanted], ""
    if len(gpus) < number:
        mend = f"{GPUS}={number} simulates them"
        if asked is not None and asked.gpus >= number:
            mend = f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')!r} hides others"
        lacks = f"needs {_counted(number, 'GPU')}, {len(gpus)} here: {mend}"
    elif memory is not None and memory > min(gpu.memory for gpu in gpus):
        lacks = f"needs {memory:,} bytes on each GPU, and there are fewer"
    if lacks:
        item.user_properties.append((LACKED, lacks))
        pytest.skip(lacks)
    item.user_properties.append((RAN, _described(len(gpus))))
    gpus.renew(memory)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A rank leaves its process group, if the test has not."""
    distributed = sys.modules.get("torch.distributed")
    if IN_RANK in os.environ and distributed and distributed.is_initialized():
        distributed.destroy_process_group()


def _described(number: int) -> str:
    import torch

    from cudasim.session import session

    if session.mode is not None and session.machine is not None:
        return f"{number} simulated {session.type.word(number)} ({session.machine.card.name})"
    name = getattr(torch.get_device_module(), "get_device_name", lambda index: "MPS")(0)
    return f"{number} real GPUs ({name})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@pytest.fixture
def gpus() -> "Gpus":
    """The GPUs, real or simulated: a sequence, with claims about blocks of code."""
    from cudasim.testing.gpus import Gpus

    return Gpus()


@pytest.fixture
def rank() -> int:
    """The number of this process in the world of `@pytest.mark.world(n)`."""
    if IN_RANK not in os.environ:
        pytest.fail("the fixture 'rank' needs @pytest.mark.world(n)", pytrace=False)
    return int(os.environ["RANK"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran: Counter[str] = Counter()
    lacking = 0
    for report in chain.from_iterable(terminalreporter.stats.values()):
        about = dict(getattr(report, "user_properties", ()))
        if RAN in about and report.when == "call":
            ran[about[RAN]] += 1
        lacking += LACKED in about and report.when == "setup"
    parts = [
        f"{_counted(number, 'test')} on {what}" for what, number in sorted(ran.items())
    ]
    if lacking:
        parts.append(f"{lacking} skipped for want of GPUs")
    if parts:
        terminalreporter.write_line(f"cudasim: {'; '.join(parts)}")
