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
from coursework.exercises.variants import draws_of
from coursework.exercises.verify import task, trials, verify
from coursework.grade.engine import on_this_machine
from coursework.grade.judge import judge
from coursework.grade.store import key_of
from tools.book.notebooks import notebook_text

CHAPTERS = sorted(path.stem for path in (ROOT / "masters").glob("*.md"))


@pytest.fixture(scope="module")
def drafts():
    """Master and assignment of each chapter of this book, by name."""
    found = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {master.name: (master, assignment) for master, assignment in found}


def test_the_exercises_of_every_chapter_are_what_its_master_makes(drafts):
    for name, chapter in BOOK.chapters.items():
        ids = {cell.id for cell in chapter.notebook.cells}
        if (
            chapter.page == name
        ):  # editions in other frameworks have exercises of their own
            assert ("exercise-1" in ids) == (name in CHAPTERS), name
        if name in CHAPTERS:
            made = notebook_text(book_chapter(drafts[name][0], chapter).notebook)
            written = (ROOT / chapter.where).read_text(encoding="utf-8")
            assert made == written, f"run 'make release CHAPTER={name}'"


@pytest.mark.parametrize(
    ("name", "runner"),
    [
        pytest.param(
            *run, marks=[] if run == ("tensors-on-gpus", "cpu") else pytest.mark.full
        )
        for run in product(CHAPTERS, ("cpu", "simulated"))
    ],
)
def test_a_students_notebook_runs_blank_and_solved(
    drafts, name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    blank, solved = (
        edition(kind, *drafts[name], BOOK) for kind in ("student", "solution")
    )
    for made in solved.cells:
        made.id = f"solved-{made.id}"
    later = [
        made
        for made in solved.cells
        if made.metadata.get("assignment", {}).get("exercise")
    ]
    there = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(
        notebook(*blank.cells, *later), kernel_name=runner, resources=there
    )
    shown = {  # by each cell; one that fails raises
        cell.id: output.data["text/plain"]
        for cell in client.execute().cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    }
    for exercise in drafts[name][0].exercises:
        last = f"holds-{exercise.number}{'-more' if len(exercise.checks) > 1 else ''}"
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
    asked = {
        f"{master.name}/{x.title}"
        for master, _ in drawn(0, lengths)
        for x in master.exercises
    }
    assert {place for place, length in lengths.items() if length > 1} == asked


def retyped(exercise, number="x", several="x", within="contextlib.nullcontext()"):
    """The solution, its data in other types: a number `x`, a list `x` of them; run in something."""
    words = {"one": number, "all": several, "within": within}
    words |= {"name": exercise.name, "number": exercise.number}
    code = (DATA / "retyped.txt").read_text(encoding="utf-8").format(**words)
    return answered(exercise.code("Starter"), f"{exercise.code('Solution')}\n{code}")


@pytest.mark.full
def test_a_solution_solves_its_exercise_whatever_is_drawn_and_may_record_a_timeline_of_its_own():
    """What held is remembered in `_build`, as by `make release`; else this takes minutes."""
    found, lengths = [], {}
    drawn(0, lengths)
    for n in range(1, max(lengths.values())):
        for master, assignment in drawn(n, {}):
            kept = [
                x for x in master.exercises if lengths[f"{master.name}/{x.title}"] > n
            ]
            if kept:
                solution = next(trials(replace(master, exercises=kept), assignment))
                solution.task.submission += f", value {n + 1} of each variant"
                for x in kept:
                    timed = retyped(x, within="cudasim.timeline()")
                    solution.task.cells[x.number] = [timed]
                found.append(solution)
    grade = partial(on_this_machine, workers=min(os.cpu_count() or 1, 4))
    lines = verify(found, grade, key_of, ROOT)
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
    lost, held = [], 0
    for master, assignment in drafts.values():
        answers = {x.number: retyped(x, number, several) for x in master.exercises}
        made = task(assignment, "retyped", answers)
        made.checks = True
        for place, found in judge(made).questions.items():
            if found.check == "holds":
                held += 1
                lost += [(master.name, place, found.tests)] * (found.points < found.of)
    assert lost == [] and held > 40
