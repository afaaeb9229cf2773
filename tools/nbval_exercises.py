"""A pytest plugin on nbval: the exercises of a chapter, in the kernel that has run its cells.

With `-p tools.nbval_exercises` the environment of the runner's framework is made first. The cells
of `outputs/<runner>/<chapter>.ipynb` are followed by an item for each exercise of
`notebooks/<chapter>.ipynb`: its check refuses the wrong answer that readers see, and takes the
solution. Where the clock is modelled, an item before them names the operators of the cells that the
model has no rule for. These items are marked `exercise` and, on all runners but that of the default
tab, `full`. The chapters that took longest to record come first, so that workers end together
(pytest-xdist keeps that order with `--no-loadscope-reorder`).

Written against nbval 0.11.0. What is imported of it here is no public interface, and nothing else
of this book relies on it.
"""

import ast
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.book.chapters import Chapter
from tools.book.exercises import ExerciseCells, exercises
from tools.book.grammar import HOLDS, NO_ANSWER
from tools.book.notebooks import code_cells, read_notebook
from tools.book.runners import DEFAULT_TAB, Runner, read_runners
from tools.errors import BookError, CannotRun

# A symptom meets this one, and shows no time of it.
WITHOUT_TIME = {"aten._pack_padded_sequence.default"}


class ExerciseFault(Exception):
    """What is wrong with an exercise, or with the times of a chapter."""


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Generator:
    collectors = yield
    if any(isinstance(collector, IPyNbFile) for collector in collectors):
        return [RecordedChapter.from_parent(parent, path=file_path)]
    return collectors


def pytest_configure(config: pytest.Config) -> None:
    runner = runner_of(config)
    try:
        runner.prepare()
    except CannotRun as reason:
        pytest.exit(f"nothing of {runner.name} is compared: {reason}", returncode=0)
    except BookError as reason:
        raise pytest.UsageError(str(reason)) from None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def seconds(item: pytest.Item) -> float:
        if not isinstance(item.parent, RecordedChapter):
            return 0
        provenance = item.parent.nb.metadata.get("provenance", {})
        return provenance.get("seconds", 0)

    items.sort(key=seconds, reverse=True)


def runner_of(config: pytest.Config) -> Runner:
    return read_runners(config.rootpath)[config.option.nbval_kernel_name]


class RecordedChapter(IPyNbFile):
    """A recording, whose cells are followed by the exercises of its chapter."""

    def collect(self) -> Iterator[pytest.Item]:
        yield from super().collect()
        root = self.config.rootpath
        default = root / "outputs" / DEFAULT_TAB / self.path.name
        tried_on_default = default.is_file() and default != self.path
        for item in self._further_items(root):
            item.add_marker("exercise")
            if tried_on_default:
                item.add_marker("full")
            yield item

    def _further_items(self, root: Path) -> Iterator[pytest.Item]:
        if runner_of(self.config).has_modelled_clock:
            yield OperatorsItem.from_parent(self, name="operators")
        notebook = read_notebook(root / "notebooks" / self.path.name, root)
        for exercise in exercises(Chapter(self.path.stem, notebook)):
            name = f"exercise-{exercise.number}"
            yield ExerciseItem.from_parent(self, name=name, exercise=exercise)


class _CodeItem(IPyNbCell):
    """Code that is run in the kernel of a chapter, and that no cell of it holds."""

    def __init__(
        self, name: str, parent: RecordedChapter, exercise: ExerciseCells | None = None
    ) -> None:
        errors_are_kept = defaultdict(bool, check_exception=True)
        super().__init__(name, parent, 0, new_code_cell(), errors_are_kept)
        self.exercise = exercise

    def run(self, source: str) -> list[NotebookNode]:
        """Run code and return its outputs."""
        self.cell = new_code_cell(source)
        super().runtest()
        return self.test_outputs

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo) -> str:
        if isinstance(excinfo.value, ExerciseFault):
            return f"{self.nodeid}: {excinfo.value}"
        return super().repr_failure(excinfo)


class ExerciseItem(_CodeItem):
    """An exercise: in the chapter it is blank, its wrong answer is refused, its solution holds."""

    def runtest(self) -> None:
        exercise = self.exercise
        wrong = exercise.code("wrong")
        solution = exercise.code("solution")
        if not (wrong and solution and exercise.checks):
            missing = "it lacks a solution, a wrong answer or a check"
            raise ExerciseFault(f"{missing}; 'make release' writes all")

        recorded = {cell.id: cell.outputs for cell in code_cells(self.parent.nb)}
        blank = recorded.get(exercise.checks[-1].id, [])
        self._expect(NO_ANSWER, blank, "blank")

        refusal = self._answered(wrong[0], exercise.checks)
        if not errors_of(refusal):
            accepted = "its check does not refuse the wrong answer"
            raise ExerciseFault(f"{accepted}:\n{wrong[0]}")

        outputs = self._answered(solution[0], exercise.parts("shows", "holds"))
        if errors := errors_of(outputs):
            raise ExerciseFault(f"its solution does not hold: {errors[0]}")
        self._expect(HOLDS, outputs, "solved")

    def _answered(self, answer: str, cells: list[NotebookNode]) -> list[NotebookNode]:
        """Run an answer and then some cells, and return the outputs of the cells."""
        if errors := errors_of(self.run(answer)):
            raise ExerciseFault(f"an answer itself fails: {errors[0]}\n{answer}")
        outputs = []
        for cell in cells:
            outputs += self.run(cell.source)
        return outputs

    def _expect(self, words: str, outputs: list[NotebookNode], when: str) -> None:
        """Raise ExerciseFault unless the value that a check shows begins with these words."""
        shown = value_of(outputs)
        wanted = f"'{self.exercise.label}: {words}"
        if not shown.startswith(wanted):
            found = shown or "nothing"
            raise ExerciseFault(f"{when}, its check shows {found}, not {wanted}...'")


class OperatorsItem(_CodeItem):
    """The operators that the kernel has met and that modelled time does not know."""

    def runtest(self) -> None:
        outputs = self.run("import cudasim\ncudasim.without_rule()")
        operators = ast.literal_eval(value_of(outputs))
        if unknown := set(operators) - WITHOUT_TIME:
            where = "cudasim/clock/operators.json"
            raise ExerciseFault(f"no rule of modelled time in {where} for {unknown}")


def errors_of(outputs: list[NotebookNode]) -> list[str]:
    errors = [output for output in outputs if output.output_type == "error"]
    return [f"{error.ename}: {error.evalue}" for error in errors]


def value_of(outputs: list[NotebookNode]) -> str:
    """Return the value that the last of some cells shows, "" if none shows any."""
    value = ""
    for output in outputs:
        if output.output_type == "execute_result":
            value = output.data["text/plain"]
    return value
