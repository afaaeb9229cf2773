"""Exercises: after its chapter, each is checked without an answer, with a wrong one, and solved.

What is answered, and what must hold then, is in the chapter itself, where readers find it. On
simulated GPUs the same run tells of operators that modelled time does not know.
"""

import ast

import pytest
from bs4 import BeautifulSoup
from helpers import ROOT, WITH_EXERCISES, code, notebook, prose, read
from nbclient import NotebookClient
from operators import LISTEN, TELL

from tools.book.chapters import SETUP, Chapter
from tools.book.notebooks import code_cells, tags
from tools.rules.exercises import EXERCISE_RULES, HELD, NO_ANSWER, exercises

OPERATORS = "operators-heard"  # the cell that shows them


def chapter_named(name):
    return Chapter(name, read(ROOT / "notebooks" / f"{name}.ipynb"))


def stages(exercise):
    """Each stage of an exercise: its name, the answer, and how what the check shows begins."""
    yield "blank", exercise.cell("answer").source, f"'{exercise.called}{NO_ANSWER}"
    yield "wrong", exercise.code("wrong")[0], None
    yield "solved", exercise.code("solution")[0], f"'{exercise.called}{HELD}"


def execute(chapter, runner, folder):
    """The cells of a chapter, then every stage of its exercises, executed on a runner."""
    cells = [each for each in code_cells(chapter.notebook) if SETUP not in tags(each)]
    if runner == "simulated":
        cells = [code("listen-to-operators", LISTEN), *cells, code(OPERATORS, TELL)]
    for each in exercises(chapter):
        for stage, answer, _ in stages(each):
            cells.append(code(f"{stage}-{each.number}", answer))
            cells += [code(f"{stage}-{cell.id}", cell.source) for cell in each.tried]
    ids = [each.id for each in cells]
    assert len(set(ids)) == len(ids)  # else one cell's outputs would be taken for another's
    client = NotebookClient(
        notebook(*cells),
        kernel_name=runner,
        allow_errors=True,
        shutdown_kernel="immediate",  # else it waits five seconds for each kernel
        iopub_timeout=60,  # outputs that come later than that are lost without a word
        resources={"metadata": {"path": str(folder)}},
    )
    return {each.id: each.outputs for each in client.execute().cells}


def faults(chapter, runner, folder):
    """What is wrong with the exercises of a chapter on a runner, a line each."""
    printed = execute(chapter, runner, folder)
    raised = {
        id: f"{output.ename}: {output.evalue}"
        for id, outputs in printed.items()
        for output in outputs
        if output.output_type == "error"
    }
    found = {id for each in exercises(chapter) for id in ids_of(each)}
    lines = [f"{id}: {raised[id]}" for id in raised if id not in found]  # of the chapter itself
    if OPERATORS in printed and OPERATORS not in raised:
        kernels, unknown = ast.literal_eval(last_value(printed[OPERATORS]))
        lines += [f"{operator}: no rule of modelled time" for operator in unknown]
        lines += [] if kernels else ["no kernel of a simulated GPU was heard"]
    for each in exercises(chapter):
        for stage, _, shown in stages(each):
            answer = f"{stage}-{each.number}"
            checks = [f"{stage}-{cell.id}" for cell in each.checks]
            refused = [raised[id] for id in checks if id in raised]
            drawing = f"{stage}-shows-{each.number}"
            if answer in raised:
                lines.append(f"{answer}: the answer itself raises {raised[answer]}")
            elif shown is not None and drawing in raised:
                lines.append(f"{answer}: to show it raises {raised[drawing]}")
            elif shown is None:
                if not refused:
                    lines.append(f"{answer}: the check does not refuse it")
            elif refused:
                lines.append(f"{answer}: the check refuses it: {refused[0]}")
            elif not (last_value(printed[checks[-1]]) or "").startswith(shown):
                lines.append(f"{answer}: the check ends in {last_value(printed[checks[-1]])}")
    return lines


def ids_of(exercise):
    """The ids of the cells that the stages of an exercise add."""
    for stage, *_ in stages(exercise):
        yield f"{stage}-{exercise.number}"
        for cell in exercise.tried:
            yield f"{stage}-{cell.id}"


def last_value(outputs):
    """The value that a cell shows."""
    values = [each.data["text/plain"] for each in outputs if each.output_type == "execute_result"]
    return values[-1] if values else None


@pytest.fixture(params=WITH_EXERCISES)
def name(request):
    return request.param


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
def test_each_exercise_takes_its_solution_and_refuses_its_wrong_answer(
    name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    chapter = chapter_named(name)
    broken = [line for rule in EXERCISE_RULES for _, line in rule(chapter)]
    assert broken == [], "\n".join(broken)  # else there is not enough to run
    found = faults(chapter, runner, tmp_path)
    assert found == [], "\n".join(found)


def folded_code(name):
    """The code of the solution and of the wrong answer of each exercise, in order."""
    for each in exercises(chapter_named(name)):
        yield from each.code("solution") + each.code("wrong")


def test_solutions_and_wrong_answers_are_folded_code_on_the_page(site, name):
    page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
    soup = BeautifulSoup(page, "html.parser")
    folds = "details.solution:not([open]) pre, details.wrong:not(.choice, [open]) pre"
    assert [block.get_text() for block in soup.select(folds)] == list(folded_code(name))
    assert soup.select("details.solution") != []


# A chapter of one exercise, sound until something in it is changed.


def fold(kind, summary, text):
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def block(source):
    return f"```python\n{source}\n```\n\nA reason of one sentence that says why."


CHECK = """\
if double is not ...:
    assert double(3) == 6
'Exercise 1: ' + ('no answer yet' if double is ... else 'it holds')"""
SOLUTION, WRONG = "def double(x):\n    return 2 * x", "double = lambda x: x"


def small(
    start="x = 3", answer="double = ...", shows="3", check=CHECK, solution=SOLUTION, wrong=WRONG
):
    folds = [
        fold("solution", "A solution", block(solution)),
        fold("wrong", "A wrong answer", block(wrong)),
    ]
    return Chapter(
        "small",
        notebook(
            code("setup", "raise SystemExit", tags=["setup"]),
            code("start", start),
            prose("exercise-1", "**1. Double.** *Recall.* Write it."),
            code("answer-1", answer),
            code("shows-1", shows),
            code("holds-1", check),
            prose("solution-1", "\n\n".join(folds)),
        ),
    )


FAULTS = {
    "start: NameError": {"start": "nothing"},
    "blank-1: the check refuses it": {"check": "assert double(3) == 6"},
    "blank-1: the check ends in 'Exercise 1: it holds'": {"answer": "double = lambda x: 2 * x"},
    "wrong-1: the check does not refuse it": {"wrong": "double = lambda x: x + 3"},
    "wrong-1: the answer itself raises": {"wrong": "double = nothing"},
    "solved-1: the check refuses it: AssertionError": {"solution": WRONG},
    "solved-1: the check ends in None": {"check": CHECK + ";"},
    "blank-1: to show it raises TypeError": {"shows": "double(3)"},
    "solved-1: to show it raises ZeroDivisionError": {"shows": "x if double is ... else x / 0"},
}


@pytest.fixture
def on_cpu(tmp_path, monkeypatch):
    """The faults of a chapter on `cpu`."""
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    return lambda chapter: faults(chapter, "cpu", tmp_path)


def test_an_operator_without_a_rule_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    rare = small(start="import torch\ntorch.linalg.cholesky(torch.eye(2)); x = 3")
    rule = "aten.linalg_cholesky_ex.default: no rule of modelled time"
    assert faults(rare, "simulated", tmp_path) == [rule]


def test_a_sound_exercise_has_no_fault(on_cpu):
    assert on_cpu(small()) == []


def test_the_exercises_of_a_new_chapter_work(on_cpu):
    template = Chapter("new", read(ROOT / "tools" / "book" / "template.ipynb"))
    assert len(exercises(template)) == 4
    assert on_cpu(template) == []


@pytest.mark.parametrize("line", FAULTS)
def test_an_exercise_that_does_not_work_is_noticed(on_cpu, line):
    found = on_cpu(small(**FAULTS[line]))
    assert any(each.startswith(line) for each in found), found
