"""Runners: the machines a chapter is executed on, declared as Jupyter kernels.

`kernels/<runner>/kernel.json` is all there is to a runner. Its metadata say what readers are
shown of it: `name`, `about`, `times` if its clock is a model and, if it is for some chapters only,
`chapters`. A command with `--framework jax` is for the chapters in JAX, and runs in an environment
that holds the pins in `kernels/jax/requirements.txt` and nothing else.
"""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from tools.book.chapters import MAIN, Chapter
from tools.errors import BookError, CannotRun
from tools.files import digest, read_text

# The GPUs of the machine at hand. Its outputs lie under the name of the card.
GPU = "gpu"
DEFAULT_TAB = "simulated"  # what a reader sees who has chosen no tab: it shows two GPUs
FALLBACK = "cpu"  # the runner without a GPU
SIMULATOR = "cudasim/src"
BEHAVIOUR = f"{SIMULATOR}/cudasim/behaviour.py"
SANITIZE = "kernels/sanitize.cfg"  # what no two runs repeat, times among it
SANITIZE_MODELLED = "kernels/sanitize-modelled.cfg"  # times are compared, as any output


@dataclass(frozen=True)
class Runner:
    """A machine that chapters are executed on."""

    name: str
    root: Path = field(repr=False)
    specification: dict = field(repr=False)
    # What the tabs call it, and a sentence or two for readers that say what it is.
    label: str
    legend: str
    # What its clock is if that is a model, such as "modelled for a T4"; None if it is real.
    clock_label: str | None
    # The variables in each of which its outputs are the same.
    conditions: list[dict[str, str]]
    # The only chapters that it executes, or None for all.
    chapters: list[str] | None

    @property
    def where(self) -> str:
        return f"kernels/{self.name}/kernel.json"

    @property
    def is_real_gpu(self) -> bool:
        """Whether it is the real GPUs of the machine at hand, which not every machine has."""
        return self.name == GPU

    @property
    def has_modelled_clock(self) -> bool:
        return self.clock_label is not None

    @property
    def simulates(self) -> bool:
        return "--simulate" in self.specification["argv"]

    @property
    def sanitize(self) -> str:
        """The file with what nbval leaves out of the comparison of its outputs."""
        return SANITIZE_MODELLED if self.has_modelled_clock else SANITIZE

    @property
    def framework(self) -> str:
        return self._option("--framework") or MAIN

    @property
    def requirements(self) -> str | None:
        """The file that pins an environment of its own; None if it uses the book's."""
        framework = self._option("--framework")
        return f"kernels/{framework}/requirements.txt" if framework else None

    @property
    def machine(self) -> str:
        """What it has in common with the runner of another framework: `cpu`, `simulated`."""
        return self.name.removeprefix(self.framework).lstrip("-") or FALLBACK

    @property
    def gpus(self) -> int | None:
        """How many GPUs chapters see there; None where that is the machine's affair."""
        if self.simulates:
            return int(self._option("--simulate"))
        hides_gpus = "--hide-accelerators" in self.specification["argv"]
        return 0 if hides_gpus or self.requirements else None

    def executes(self, chapter: Chapter) -> bool:
        """Return whether the chapter is for it, and needs no more GPUs than it has."""
        if chapter.framework != self.framework:
            return False
        if self.chapters is not None and chapter.name not in self.chapters:
            return False
        if chapter.holds_puzzles and not self.has_modelled_clock:
            return False  # they simulate GPUs, which a runner with a real clock does not claim
        return self.gpus is None or self.gpus >= chapter.gpus

    def digest(self, chapter: Chapter) -> str:
        """Return the hash of what makes it the machine that it is.

        Outputs recorded with another one are stale. It covers the command and its
        variables, the files in `kernels/` that start it and, if it simulates GPUs or the
        chapter imports the simulator, the version of the simulator's behaviour.
        """
        command = [self.specification["argv"], self.specification.get("env")]
        parts: list[str | bytes] = [json.dumps(command)]
        starters = ["start.py", "framework.py"] if self.requirements else ["start.py"]
        for name in starters:
            parts += [name, (self.root / "kernels" / name).read_bytes()]
        names_simulator = any("cudasim" in cell.source for cell in chapter.keyed_cells)
        if self.simulates or names_simulator:
            parts.append(f"behaviour {behaviour_of_simulator(self.root)}")
        return digest(parts)

    def _option(self, name: str) -> str | None:
        """Return the value of an option of its command, or None."""
        words = self.specification["argv"]
        return words[words.index(name) + 1] if name in words else None

    def prepare(self) -> None:
        """Make the environment that its kernels start in, unless that is the book's own.

        Raises CannotRun where no Python is there for it, BookError if it cannot be made.
        """
        if not self.requirements:
            return
        from tools import environment  # here: the site makes none

        try:
            environment.make(
                environment.framework_environment(self.framework, self.root)
            )
        except environment.NoPython as reason:
            raise CannotRun(str(reason)) from None
        except (environment.SetupError, OSError) as error:
            raise BookError(
                self.where, f"no environment for {self.framework}: {error}"
            ) from None

    def use(self) -> str:
        """Let Jupyter find it, and return its name."""
        path = os.environ.get("JUPYTER_PATH", "")
        if str(self.root) not in path.split(os.pathsep):
            both = f"{self.root}{os.pathsep}{path}" if path else str(self.root)
            os.environ["JUPYTER_PATH"] = both
        return self.name


def behaviour_of_simulator(root: Path) -> int | None:
    """Return the version of what programs see of simulated GPUs.

    It is read and not imported. A book without a simulator of its own has none.
    """
    if not (root / SIMULATOR).is_dir():
        return None
    text = read_text(root / BEHAVIOUR, root)
    line = re.search(r"^BEHAVIOUR = (\d+)$", text, re.MULTILINE)
    if line is None:
        raise BookError(BEHAVIOUR, "has no line 'BEHAVIOUR = <number>'", "restore it")
    return int(line[1])


def read_runners(root: Path) -> dict[str, Runner]:
    """Return the runners that `kernels/` declares, by name, in the order of the tabs."""
    paths = (root / "kernels").glob("*/kernel.json")
    runners = [_read_runner(path.parent.name, root) for path in paths]

    def tab_order(runner: Runner) -> tuple[bool, bool, str]:
        is_default = runner.machine == DEFAULT_TAB
        has_environment = runner.requirements is not None
        return not is_default, has_environment, runner.name

    return {runner.name: runner for runner in sorted(runners, key=tab_order)}


def _read_runner(name: str, root: Path) -> Runner:
    where = f"kernels/{name}/kernel.json"
    text = read_text(root / where, root)
    try:
        specification = json.loads(text)
        about = dict(specification.get("metadata", {}).get("runner", {}))
        _check_command(specification["argv"], about)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BookError(
            where, f"not a kernel specification ({error})", "correct it"
        ) from None
    runner = Runner(
        name=name,
        root=root,
        specification=specification,
        label=about.get("name", name),
        legend=about.get("about", ""),
        clock_label=about.get("times"),
        conditions=about.get("compare", [{}]),
        chapters=about.get("chapters"),
    )
    if runner.requirements and not (root / runner.requirements).is_file():
        source = runner.requirements.replace(".txt", ".in")
        how = "compile it with the command at the head of requirements.txt"
        raise BookError(
            where,
            f"no {runner.requirements}",
            f"correct '--framework', or write {source} and {how}",
        )
    return runner


def _check_command(argv: object, about: dict) -> None:
    """Raise ValueError for a command that does not suit what readers are told of times."""
    if not isinstance(argv, list):
        raise ValueError("'argv' is not a list")
    if ("times" in about) != ("--clock" in argv):
        raise ValueError("'--clock' in 'argv' goes with 'times' in the metadata")
