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
from tools.environment import NoPython, SetupError, framework_environment, make
from tools.errors import BookError, CannotRun
from tools.files import digest, read_text

GPU = (
    "gpu"  # the GPUs of the machine at hand; its outputs lie under the name of the card
)
FIRST = "simulated"  # the tab that a reader sees who has chosen none: it shows two GPUs
FALLBACK = "cpu"  # the runner without a GPU
SIMULATOR = "cudasim/src"
BEHAVIOUR = f"{SIMULATOR}/cudasim/behaviour.py"
SANITIZE = "kernels/sanitize.cfg"  # what no two runs repeat, times among it
SANITIZE_MODELLED = "kernels/sanitize-modelled.cfg"  # times are compared, as any output


@dataclass(frozen=True)
class Runner:
    name: str
    root: Path = field(repr=False)
    specification: dict = field(repr=False)
    label: str  # what the tabs call it
    legend: str  # a sentence or two for readers that say what it is
    times: (
        str | None
    )  # what its times are, such as "modelled for a T4"; None if its clock is real
    conditions: list[
        dict[str, str]
    ]  # the variables in each of which its outputs are the same
    chapters: list[str] | None  # the only ones that it executes

    @property
    def where(self) -> str:
        return f"kernels/{self.name}/kernel.json"

    @property
    def is_local(self) -> bool:
        """True if every machine has it: all but the real GPUs."""
        return self.name != GPU

    @property
    def simulates(self) -> bool:
        return "--simulate" in self.specification["argv"]

    @property
    def sanitize(self) -> str:
        """The file with what nbval leaves out of the comparison of its outputs."""
        return SANITIZE_MODELLED if self.times else SANITIZE

    @property
    def framework(self) -> str:
        return self._option("--framework") or MAIN

    @property
    def pins(self) -> str | None:
        """The file with the pins of its framework; None if those are the book's."""
        own = self._option("--framework")
        return own and f"kernels/{own}/requirements.txt"

    @property
    def machine(self) -> str:
        """What it has in common with the runner of another framework: `cpu`, `simulated`."""
        return self.name.removeprefix(self.framework).lstrip("-") or FALLBACK

    @property
    def gpus(self) -> int | None:
        """How many GPUs chapters see there; None where that is the machine's affair."""
        if self.simulates:
            return int(self._option("--simulate"))
        return (
            0
            if "--hide-accelerators" in self.specification["argv"] or self.pins
            else None
        )

    def executes(self, chapter: Chapter) -> bool:
        """True if the chapter is in its framework, one of its own, and needs no more GPUs."""
        if chapter.framework != self.framework or (
            chapter.holds_puzzles and not self.times
        ):
            return False  # puzzles simulate GPUs, which a runner with a real clock does not claim
        listed = self.chapters is None or chapter.name in self.chapters
        return listed and (self.gpus is None or self.gpus >= chapter.gpus)

    def digest(self, chapter: Chapter) -> str:
        """Return the hash of what makes it the machine that it is.

        Outputs recorded with another one are stale. It covers the command and its
        variables, the files in `kernels/` that start it and, if it simulates GPUs or the
        chapter imports the simulator, the version of the simulator's behaviour.
        """
        command = [self.specification["argv"], self.specification.get("env")]
        parts: list[str | bytes] = [json.dumps(command)]
        for name in ("start.py", "framework.py") if self.pins else ("start.py",):
            parts += [name, (self.root / "kernels" / name).read_bytes()]
        names_simulator = any("cudasim" in cell.source for cell in chapter.keyed_cells)
        if self.simulates or names_simulator:
            parts.append(f"behaviour {behaviour_of_simulator(self.root)}")
        return digest(parts)

    def _option(self, name: str) -> str | None:
        words = self.specification["argv"]
        return words[words.index(name) + 1] if name in words else None

    def prepare(self) -> None:
        """Make the environment that its kernels start in, unless that is the book's own. Raises
        CannotRun where no Python is there for it, BookError if it cannot be made."""
        try:
            if self.pins:
                make(framework_environment(self.framework, self.root))
        except NoPython as reason:
            raise CannotRun(str(reason)) from None
        except (SetupError, OSError) as error:
            raise BookError(
                f"{self.where}: no environment for {self.framework}: {error}"
            ) from None

    def use(self) -> str:
        """Let Jupyter find it; returns its name."""
        paths = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
        if str(self.root) not in paths:
            os.environ["JUPYTER_PATH"] = os.pathsep.join(
                filter(None, [str(self.root), *paths])
            )
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
        raise BookError(f"{BEHAVIOUR}: has no line 'BEHAVIOUR = <number>'; restore it")
    return int(line[1])


def read_runners(root: Path) -> dict[str, Runner]:
    """The runners that `kernels/` declares, by name, in the order in which pages show them."""
    paths = (root / "kernels").glob("*/kernel.json")
    runners = [_read_runner(path.parent.name, root) for path in paths]

    def place(runner: Runner) -> tuple[bool, bool, str]:
        return runner.machine != FIRST, runner.pins is not None, runner.name

    return {runner.name: runner for runner in sorted(runners, key=place)}


def _read_runner(name: str, root: Path) -> Runner:
    where = f"kernels/{name}/kernel.json"
    text = read_text(root / where, root)
    try:
        specification = json.loads(text)
        argv, metadata = specification["argv"], specification.get("metadata", {})
        about = dict(metadata.get("runner", {}))
        if not isinstance(argv, list) or ("times" in about) != ("--clock" in argv):
            raise ValueError(
                "'argv' is a list; '--clock' in it goes with 'times' in the metadata"
            )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BookError(
            f"{where}: not a kernel specification ({error}); correct it"
        ) from None
    told = [about.get("name", name), about.get("about", ""), about.get("times")]
    told += [about.get("compare", [{}]), about.get("chapters")]
    runner = Runner(name, root, specification, *told)
    if runner.pins and not (root / runner.pins).is_file():
        mend = "correct '--framework', or write the .in of it and run 'python -m tools pins'"
        raise BookError(f"{where}: no {runner.pins}; {mend}")
    return runner
