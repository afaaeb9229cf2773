"""What the check in sight accepts, grading accepts: every solution, its data in other types, and
one that records a timeline of its own while it is timed."""

import pytest

from tools.book.book import Book
from tools.exercises.editions import answered
from tools.exercises.release import MASTERS, make_drafts
from tools.exercises.variants import draws_of
from tools.exercises.verify import task
from tools.grade.judge import grade_one
from tools.root import ROOT

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("sandbox")]
PLAIN = "contextlib.nullcontext()"
FORMS = {  # of a number or truth value `x`, of a list or tuple `x` of those, and what it runs in
    "NumPy": ("np.array(x)[()]", "np.array(x)", PLAIN),
    "tensors, numbers for truth": (
        "int(x) if type(x) is bool else torch.tensor(x)",
        "torch.tensor(x) if type(x) is list else list(x)",
        PLAIN,
    ),
    "a timeline of its own": ("x", "x", "cudasim.timeline()"),
}
RETYPED = """
def retyped_{number}(x):
    import numpy as np, torch
    if isinstance(x, (bool, int, float)):
        return {one}
    if isinstance(x, (list, tuple)) and x and all(isinstance(y, (bool, int, float)) for y in x):
        return {all}
    if type(x) in (list, tuple, dict):
        values = x.values() if type(x) is dict else x
        made = [retyped_{number}(y) for y in values]
        return dict(zip(x, made)) if type(x) is dict else type(x)(made)
    return x
if callable({name}) and not isinstance({name}, type):
    plain_{number} = {name}
    def {name}(*args, **kwargs):
        import contextlib, cudasim
        with {within}:
            return retyped_{number}(plain_{number}(*args, **kwargs))
else:
    {name} = retyped_{number}({name})
"""


@pytest.mark.parametrize("form", FORMS)
def test_no_type_is_demanded_that_the_check_does_not_demand(form):
    one, every, within = FORMS[form]
    lost, held = [], 0
    for master, assignment in make_drafts(Book(ROOT), ROOT / MASTERS, draws_of(None)):
        answers = {}
        for exercise in master.exercises:
            words = {"one": one, "all": every, "within": within}
            words |= {"name": exercise.name, "number": exercise.number}
            code = exercise.code("Solution") + "\n" + RETYPED.format(**words)
            answers[exercise.number] = answered(exercise.code("Starter"), code)
        made = task(assignment, form, answers) | {"checks": True}
        for number, found in grade_one(made)["questions"].items():
            if found["check"] == "holds":
                held += 1
                lost += [(master.name, number, found["tests"])] * (found["points"] < found["of"])
    assert lost == [] and held > 40
