"""What pytest loads: options, the markers `gpus` and `world`, the fixtures `gpus` and `rank`.

Without an option and a marker it does nothing and imports no torch.
"""

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cudasim import config as settings
from cudasim.testing import world
from cudasim.testing.sizes import parse_bytes

if TYPE_CHECKING:
    from cudasim.testing.gpus import Gpus

GPUS, CARD, TYPE = "--simulated-gpus", "--simulated-card", "--simulated-device-type"
NEEDS = "needs"  # how the reason of a skip for want of GPUs begins
PROPERTY = "gpus"  # of a report: what the test ran on

said = pytest.StashKey[str]()  # the line with which the simulation began
wanted = pytest.StashKey["settings.Config | None"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("cudasim", "simulated GPUs")
    group.addoption(GPUS, metavar="N", help="let the tests see N simulated GPUs")
    group.addoption(CARD, metavar="NAME", help="which card they are (T4)")
    group.addoption(TYPE, metavar="TYPE", help="cuda, mps or xpu (cuda)")
    group.addoption(
        "--simulated-force", action="store_true", help="even where as many real GPUs are"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the simulation that the options request, before tests are collected.

    With pytest-xdist each worker has its own, and the process that leads them none.
    """
    config.addinivalue_line(
        "markers",
        "gpus(n, memory=None): the test needs n GPUs; of each it may take `memory`, such as "
        "'1GiB'. It is skipped where there are fewer.",
    )
    config.addinivalue_line(
        "markers",
        f"world(n, gpus=n, timeout={world.PATIENCE}): the test runs in n processes, one a rank, "
        "each with the environment that torchrun gives it; it needs as many GPUs, or `gpus`, and "
        "may take `timeout` seconds.",
    )
    asked = config.stash[wanted] = _asked(config)
    if asked is None or _leads_workers(config):
        return
    from cudasim import simulation

    try:
        line = simulation.begin(asked)
    except (ValueError, RuntimeError) as error:
        raise pytest.UsageError(f"{GPUS}: {error}") from None
    config.stash[said] = line or "cudasim: simulated by the environment"
    config.add_cleanup(simulation.disable)


def _asked(config: pytest.Config) -> settings.Config | None:
    number, card, type = (config.getoption(name) for name in (GPUS, CARD, TYPE))
    if number is None and card is None and type is None:
        return None
    try:
        force = config.getoption("--simulated-force")
        found = settings.parse(number, card, type, force, source=(GPUS, TYPE))
        found.find_card()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return found


def _leads_workers(config: pytest.Config) -> bool:
    return bool(getattr(config.option, "tx", None)) and not hasattr(config, "workerinput")


def pytest_report_header(config: pytest.Config) -> str | None:
    """One line, where GPUs are simulated or would have been."""
    asked = config.stash[wanted]
    if asked is not None and _leads_workers(config):
        card = asked.find_card().name
        return f"cudasim: each worker has {asked.gpus} GPUs; {card}, simulated, where none are"
    return config.stash.get(said, None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a world run in processes of their own."""
    if world.IN_RANK in os.environ:
        return
    for item in items:
        if (asked := _world(item)) is not None:
            world.spread(item, asked.size, asked.timeout)


@dataclass(frozen=True)
class World:
    """What the marker `world` says: how many ranks, on how many GPUs, for how many seconds."""

    size: int
    gpus: int
    timeout: float


def _world(item: pytest.Item) -> World | None:
    """The world of a test; None for an ordinary one."""
    marker = item.get_closest_marker("world")
    if marker is None:
        return None
    size = marker.args[0] if marker.args else None
    if not isinstance(size, int) or size < 1:
        raise pytest.UsageError(f"{item.nodeid}: write @pytest.mark.world(2), for two ranks")
    said = {"gpus": size, "timeout": world.PATIENCE, **marker.kwargs}
    return World(size, said["gpus"], said["timeout"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs more GPUs than are here; give it fresh ones otherwise."""
    number, memory = _needs(item)
    if world.IN_RANK in os.environ and memory is None:
        return  # the process is as fresh, and who started it has counted
    if not number and item.config.stash.get(said, None) is None:
        return
    from cudasim.testing.gpus import Gpus, count

    here = count()
    if here < number:
        pytest.skip(
            f"{NEEDS} {_counted(number, 'GPU')}, {here} here: {GPUS}={number} simulates them"
        )
    gpus = Gpus()
    if memory is not None and memory > min(gpu.memory for gpu in gpus):
        pytest.skip(f"{NEEDS} {memory:,} bytes on each GPU, and there are fewer")
    item.user_properties.append((PROPERTY, describe()))
    gpus.renew(memory)


def _needs(item: pytest.Item) -> tuple[int, int | None]:
    """How many GPUs a test needs, and how many bytes of each it may take; None for all."""
    number = int("gpus" in getattr(item, "fixturenames", ()))
    memory = None
    if (asked := _world(item)) is not None:
        number = asked.gpus
    if (marker := item.get_closest_marker("gpus")) is not None:
        number = max(number, *marker.args, 1)
        memory = marker.kwargs.get("memory")
    try:
        return number, None if memory is None else parse_bytes(memory)
    except ValueError as error:
        pytest.fail(f"@pytest.mark.gpus: {error}", pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A rank leaves its process group, if the test has not."""
    distributed = sys.modules.get("torch.distributed")
    if world.IN_RANK in os.environ and distributed and distributed.is_initialized():
        distributed.destroy_process_group()


def describe() -> str:
    """The GPUs of this process, in words: `2 simulated GPUs (T4)`."""
    import torch

    from cudasim import simulation
    from cudasim.session import session
    from cudasim.testing.gpus import count

    if simulation.is_enabled():
        return f"{len(session.gpus)} simulated {session.type.word(len(session.gpus))} " + (
            f"({session.gpus[0].card.name})"
        )
    module = torch.get_device_module()
    name = getattr(module, "get_device_name", lambda index: "MPS")(0)
    return f"{count()} real GPUs ({name})"


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
    if world.IN_RANK not in os.environ:
        pytest.fail("the fixture 'rank' needs @pytest.mark.world(n)", pytrace=False)
    return int(os.environ["RANK"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line: how many tests ran on which GPUs, and how many had none."""
    ran: dict[str, int] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, value in report.user_properties:
                    if name == PROPERTY:
                        ran[value] = ran.get(value, 0) + 1
    parts = [f"{_counted(number, 'test')} on {what}" for what, number in sorted(ran.items())]
    lacking = sum(
        isinstance(report.longrepr, tuple) and f"Skipped: {NEEDS} " in report.longrepr[2]
        for report in terminalreporter.stats.get("skipped", ())
    )
    if lacking:
        parts.append(f"{lacking} skipped for want of GPUs")
    if parts:
        terminalreporter.write_line(f"cudasim: {'; '.join(parts)}")
