"""The environments of the frameworks beside PyTorch, made when one of their runners is needed."""

import re

from tools import environment
from tools.book.runners import Runner
from tools.errors import BookError, CannotRun


def prepare(runner: Runner) -> None:
    """Make the environment that a runner starts its kernels in, unless that is the book's own.
    Raises CannotRun where no Python is there for it, BookError if it cannot be made."""
    if runner.pins is None:
        return
    try:
        environment.make(environment.framework_environment(runner.framework, runner.root))
    except environment.NoPython as reason:
        raise CannotRun(str(reason)) from None
    except (environment.SetupError, OSError) as error:
        raise BookError(f"{runner.where}: no environment for {runner.framework}: {error}") from None


def python_of(runner: Runner) -> str:
    made = environment.framework_environment(runner.framework, runner.root)
    facts = (made.folder / "pyvenv.cfg").read_text(encoding="utf-8")
    return re.search(r"^version = (\S+)", facts, re.M)[1]
