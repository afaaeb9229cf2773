"""This book's own exercises, as students and graders get them."""

import os
from dataclasses import replace
from functools import partial

import pytest
from classroom import BOOK, DATA
from helpers import ROOT, notebook
from nbclient import NotebookClient

from coursework.exercises.assignment import make_drafts
from coursework.exercises.editions import answered, book_chapter, edition
from coursework.exercises.tasks import draws_of
from coursework.exercises.verify import task, trials, verify
from coursework.grade.engine import on_this_machine
from coursework.grade.judge import judge
from coursework.grade.store import key_of
from tools.book.notebooks import notebook_text

CHAPTERS = sorted(path.stem for path in (ROOT / "masters").glob("*.md"))


def test_each_chapter_with_exercises_has_a_master():
    with_exercises = []
    for name, chapter in BOOK.chapters.items():
        ids = {cell.id for cell in chapter.notebook.cells}
        # Editions in other frameworks have exercises of their own.
        if chapter.page_name == name and "exercise-1" in ids:
            with_exercises.append(name)
    assert sorted(with_exercises) == CHAPTERS


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_exercises_of_a_chapter_are_what_its_master_makes(name, drafts):
    chapter = BOOK.chapters[name]
    made = book_chapter(drafts[name].master, chapter, BOOK.repository)
    written = (ROOT / chapter.where).read_text(encoding="utf-8")
    assert notebook_text(made.notebook) == written, f"run 'make release CHAPTER={name}'"


def runs():
    """Return each chapter with each runner; all but the first are for FULL=1."""
    parameters = []
    for name in CHAPTERS:
        for runner in ("cpu", "simulated"):
            is_first = name == "tensors-on-gpus" and runner == "cpu"
            marks = [] if is_first else [pytest.mark.full]
            parameters.append(pytest.param(name, runner, marks=marks))
    return parameters


def with_solutions(blank, solved):
    """Return the cells of the blank edition, and below them those of the solved exercises."""
    cells = list(blank.cells)
    for cell in solved.cells:
        cell.id = f"solved-{cell.id}"
        if "exercise" in cell.metadata.get("assignment", {}):
            cells.append(cell)
    return cells


def shown_values(executed):
    """Return the text of the value that each cell shows, by its id."""
    values = {}
    for cell in executed.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "execute_result":
                values[cell.id] = output.data["text/plain"]
    return values


@pytest.mark.parametrize(("name", "runner"), runs())
def test_a_students_notebook_runs_blank_and_solved(
    drafts, name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    blank = edition("student", *drafts[name], BOOK)
    solved = edition("solution", *drafts[name], BOOK)
    both = notebook(*with_solutions(blank, solved))
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(both, kernel_name=runner, resources=resources)

    # A cell that fails raises.
    values = shown_values(client.execute())

    for exercise in drafts[name].master.exercises:
        last_check = f"holds-{exercise.number}"
        if len(exercise.checks) > 1:
            last_check += "-more"
        assert "no answer yet" in values[last_check]
        assert "passed" in values[f"solved-{last_check}"]


# --- whatever is drawn


class NthDraw:
    """Draws the nth value of each variant, and notes how many values an exercise has."""

    def __init__(self, n):
        self.n = n
        self.counts = {}

    def __call__(self, place, values):
        exercise = place.rpartition("/")[0]
        self.counts[exercise] = len(values)
        return values[self.n % len(values)]


def make_all_drafts(choose):
    draws = replace(draws_of(None), choose=choose)
    return make_drafts(ROOT, ROOT / "masters", draws)


def test_every_exercise_of_the_book_is_another_for_a_class():
    first_draw = NthDraw(0)
    titles = set()
    for master, _ in make_all_drafts(first_draw):
        titles |= {f"{master.name}/{exercise.title}" for exercise in master.exercises}
    counts = first_draw.counts
    with_variants = {exercise for exercise in counts if counts[exercise] > 1}
    assert with_variants == titles


def retyped(exercise, number="x", several="x", within="contextlib.nullcontext()"):
    """Return the solution with its results in other types, run within something else.

    `number` and `several` are code that makes another type of a number `x`, and of a list
    `x` of numbers.
    """
    template = (DATA / "retyped.txt").read_text(encoding="utf-8")
    code = template.format(
        name=exercise.answer_name,
        number=exercise.number,
        one=number,
        all=several,
        within=within,
    )
    return answered(exercise.code("Starter"), f"{exercise.code('Solution')}\n{code}")


def drawn_solutions(n, counts):
    """Return a solution of each master, whose exercises have the nth value of their variants.

    Exercises that have fewer values are left out. Each answer records a timeline of its own.
    """
    solutions = []
    for master, assignment in make_all_drafts(NthDraw(n)):
        exercises = []
        for exercise in master.exercises:
            if counts[f"{master.name}/{exercise.title}"] > n:
                exercises.append(exercise)
        if not exercises:
            continue
        solution = next(trials(replace(master, exercises=exercises), assignment))
        solution.task.submission += f", value {n + 1} of each variant"
        for exercise in exercises:
            timed = retyped(exercise, within="cudasim.timeline()")
            solution.task.cells[exercise.number] = [timed]
        solutions.append(solution)
    return solutions


@pytest.mark.full
def test_a_solution_with_a_timeline_solves_whatever_is_drawn():
    """What held is remembered in `_build`, as by `make release`; else this takes minutes."""
    first_draw = NthDraw(0)
    make_all_drafts(first_draw)
    solutions = []
    for n in range(1, max(first_draw.counts.values())):
        solutions += drawn_solutions(n, first_draw.counts)

    workers = min(os.cpu_count() or 1, 4)
    grade = partial(on_this_machine, workers=workers)
    lines = verify(solutions, grade, key_of, ROOT)
    assert lines == [], "\n".join(lines)


INT_OR_TENSOR = "int(x) if type(x) is bool else torch.tensor(x)"
TENSOR_OR_LIST = "torch.tensor(x) if type(x) is list else list(x)"


@pytest.mark.full
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("number", "several"),
    [("np.array(x)[()]", "np.array(x)"), (INT_OR_TENSOR, TENSOR_OR_LIST)],
    ids=["NumPy", "tensors"],
)
def test_what_the_check_in_sight_accepts_grading_accepts(number, several, drafts):
    accepted = 0
    lost = []
    for master, assignment in drafts.values():
        answers = {}
        for exercise in master.exercises:
            answers[exercise.number] = retyped(exercise, number, several)
        hand_in = task(assignment, "retyped", answers)
        hand_in.checks = True
        for exercise_number, result in judge(hand_in).results.items():
            if result.check == "passes":
                accepted += 1
                if result.points < result.of:
                    lost.append((master.name, exercise_number, result.tests))
    assert lost == []
    assert accepted > 40
