"""This book's own exercises, as students and graders get them."""

import os
from dataclasses import replace
from functools import partial
from itertools import product

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


@pytest.fixture(scope="module")
def drafts():
    """Return the draft of each chapter of this book, by name."""
    all_drafts = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {draft.master.name: draft for draft in all_drafts}


def test_the_exercises_of_every_chapter_are_what_its_master_makes(drafts):
    for name, chapter in BOOK.chapters.items():
        ids = {cell.id for cell in chapter.notebook.cells}
        # Editions in other frameworks have exercises of their own.
        if chapter.page == name:
            assert ("exercise-1" in ids) == (name in CHAPTERS), name
        if name in CHAPTERS:
            made = book_chapter(drafts[name].master, chapter)
            written = (ROOT / chapter.where).read_text(encoding="utf-8")
            advice = f"run 'make release CHAPTER={name}'"
            assert notebook_text(made.notebook) == written, advice


def runs():
    """Return each chapter with each runner that is for all; the rest is for FULL=1."""
    parameters = []
    for name, runner in product(CHAPTERS, ("cpu", "simulated")):
        is_first = (name, runner) == ("tensors-on-gpus", "cpu")
        marks = [] if is_first else [pytest.mark.full]
        parameters.append(pytest.param(name, runner, marks=marks))
    return parameters


@pytest.mark.parametrize(("name", "runner"), runs())
def test_a_students_notebook_runs_blank_and_solved(
    drafts, name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    blank = edition("student", *drafts[name], BOOK)
    solved = edition("solution", *drafts[name], BOOK)
    cells = list(blank.cells)
    for cell in solved.cells:
        cell.id = f"solved-{cell.id}"
        if "exercise" in cell.metadata.get("assignment", {}):
            cells.append(cell)
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(notebook(*cells), kernel_name=runner, resources=resources)

    shown = {}  # by each cell; one that fails raises
    for cell in client.execute().cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "execute_result":
                shown[cell.id] = output.data["text/plain"]
    for exercise in drafts[name].master.exercises:
        last = f"holds-{exercise.number}"
        if len(exercise.checks) > 1:
            last += "-more"
        assert "no answer yet" in shown[last]
        assert "it holds" in shown[f"solved-{last}"]


# --- whatever is drawn


def drawn(n, lengths):
    """The drafts of all masters with the nth value of each variant, whose number is noted."""

    def nth(place, values):
        lengths[place.rpartition("/")[0]] = len(values)
        return values[n % len(values)]

    return make_drafts(ROOT, ROOT / "masters", replace(draws_of(None), choose=nth))


def test_every_exercise_of_the_book_is_another_for_a_class():
    lengths = {}
    titles = set()
    for master, _ in drawn(0, lengths):
        titles |= {f"{master.name}/{exercise.title}" for exercise in master.exercises}
    drawn_anew = {place for place, length in lengths.items() if length > 1}
    assert drawn_anew == titles


def retyped(exercise, number="x", several="x", within="contextlib.nullcontext()"):
    """The solution, its data in other types: a number `x`, a list `x` of them; run in something."""
    words = {"one": number, "all": several, "within": within}
    words |= {"name": exercise.answer_name, "number": exercise.number}
    code = (DATA / "retyped.txt").read_text(encoding="utf-8").format(**words)
    return answered(exercise.code("Starter"), f"{exercise.code('Solution')}\n{code}")


@pytest.mark.full
def test_a_solution_solves_its_exercise_whatever_is_drawn_and_may_record_a_timeline_of_its_own():
    """What held is remembered in `_build`, as by `make release`; else this takes minutes."""
    lengths = {}
    drawn(0, lengths)
    solutions = []
    for n in range(1, max(lengths.values())):
        for master, assignment in drawn(n, {}):
            exercises = []
            for exercise in master.exercises:
                if lengths[f"{master.name}/{exercise.title}"] > n:
                    exercises.append(exercise)
            if not exercises:
                continue
            solution = next(trials(replace(master, exercises=exercises), assignment))
            solution.task.submission += f", value {n + 1} of each variant"
            for exercise in exercises:
                timed = retyped(exercise, within="cudasim.timeline()")
                solution.task.cells[exercise.number] = [timed]
            solutions.append(solution)
    grade = partial(on_this_machine, workers=min(os.cpu_count() or 1, 4))
    lines = verify(solutions, grade, key_of, ROOT)
    assert lines == [], "\n".join(lines)


@pytest.mark.full
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("number", "several"),
    [
        ("np.array(x)[()]", "np.array(x)"),
        (
            "int(x) if type(x) is bool else torch.tensor(x)",
            "torch.tensor(x) if type(x) is list else list(x)",
        ),
    ],
    ids=["NumPy", "tensors"],
)
def test_what_the_check_in_sight_accepts_grading_accepts(number, several, drafts):
    lost = []
    held = 0
    for master, assignment in drafts.values():
        answers = {}
        for exercise in master.exercises:
            answers[exercise.number] = retyped(exercise, number, several)
        retyped_task = task(assignment, "retyped", answers)
        retyped_task.checks = True
        for place, result in judge(retyped_task).results.items():
            if result.check != "passes":
                continue
            held += 1
            if result.points < result.of:
                lost.append((master.name, place, result.tests))
    assert lost == []
    assert held > 40
