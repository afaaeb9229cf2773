"""Runners: the machines a chapter is executed on, declared as Jupyter kernels.

`kernels/<runner>/kernel.json` is all there is to a runner. Its metadata say what readers are
shown of it: `name`, `about`, `times` if its clock is a model and, if it is for some chapters only,
`chapters`.
"""

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.book.chapters import Chapter
from tools.errors import BookError
from tools.files import digest, read_text

GPU = "gpu"  # the GPUs of the machine at hand; its outputs lie under the name of the card
FIRST = "simulated"  # the tab that a reader sees who has chosen none: it shows two GPUs
SIMULATOR = "cudasim/src"
SANITIZE = "tests/sanitize.cfg"  # what no two runs repeat, times among it
SANITIZE_MODELLED = "tests/sanitize-modelled.cfg"  # times are compared, as any output


@dataclass(frozen=True)
class Runner:
    name: str
    root: Path = field(repr=False)
    specification: dict = field(repr=False)
    label: str  # what the tabs call it
    legend: str  # a sentence or two for readers that say what it is
    times: str | None  # what its times are, such as "modelled for a T4"; None if its clock is real
    conditions: list[dict[str, str]]  # the variables in each of which its outputs are the same
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
    def gpus(self) -> int | None:
        """How many GPUs chapters see there; None where that is the machine's affair."""
        words = self.specification["argv"]
        if self.simulates:
            return int(words[words.index("--simulate") + 1])
        return 0 if "--hide-accelerators" in words else None

    def executes(self, chapter: Chapter) -> bool:
        """True if the chapter is one of its own, and it has as many GPUs as the chapter needs."""
        if chapter.holds_puzzles and not self.times:
            return False  # they simulate GPUs, which a runner with a real clock does not claim
        listed = self.chapters is None or chapter.name in self.chapters
        return listed and (self.gpus is None or self.gpus >= chapter.gpus)

    def digest(self, chapter: Chapter) -> str:
        """The hash of what makes it the machine that it is; its outputs are stale with another.

        That is its command and variables, `kernels/start.py`, which the command starts, and, if
        it simulates GPUs or the chapter names the simulator, the simulator.
        """
        if self.simulates or any("cudasim" in cell.source for cell in chapter.keyed_cells):
            return self._digest_with_simulator
        return self._digest([])

    @cached_property
    def _digest_with_simulator(self) -> str:
        return self._digest(sorted((self.root / SIMULATOR).rglob("*")))

    def _digest(self, simulator: list[Path]) -> str:
        parts = [json.dumps([self.specification["argv"], self.specification.get("env")])]
        for path in (self.root / "kernels" / "start.py", *simulator):
            if path.is_file() and path.suffix != ".pyc":
                parts += [path.relative_to(self.root).as_posix(), path.read_bytes()]
        return digest(parts)

    def use(self) -> str:
        """Let Jupyter find its kernel; returns the kernel's name."""
        paths = os.environ.get("JUPYTER_PATH", "").split(os.pathsep)
        if str(self.root) not in paths:
            os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(self.root), *paths]))
        return self.name


def read_runners(root: Path) -> dict[str, Runner]:
    """The runners that `kernels/` declares, by name, in the order in which pages show them."""
    names = [path.parent.name for path in (root / "kernels").glob("*/kernel.json")]
    ordered = sorted(names, key=lambda name: (name != FIRST, name))
    return {name: _read_runner(name, root) for name in ordered}


def _read_runner(name: str, root: Path) -> Runner:
    where = f"kernels/{name}/kernel.json"
    text = read_text(root / where, root)
    try:
        specification = json.loads(text)
        about = dict(specification.get("metadata", {}).get("runner", {}))
        argv = specification["argv"]
        if not isinstance(argv, list) or ("times" in about) != ("--clock" in argv):
            raise ValueError("'argv' is a list; '--clock' in it goes with 'times' in the metadata")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BookError(f"{where}: not a kernel specification ({error}); correct it") from None
    return Runner(
        name,
        root,
        specification,
        label=about.get("name", name),
        legend=about.get("about", ""),
        times=about.get("times"),
        conditions=about.get("compare", [{}]),
        chapters=about.get("chapters"),
    )
