"""A question runs in the notebook's own namespace, with its inputs bound for it alone."""

import pytest

from tools.grade.sandbox.inside.agent import question


def test_statements_change_the_notebook_and_inputs_do_not():
    names = {"step": 1}
    names["f"] = eval("lambda x: x + step", names)
    code = """
own, step = step, big
try:
    found = [f(n) for n in range(big)]
finally:
    step = own
found"""
    assert question(code, {"big": 3}, names) == [3, 4, 5]
    assert names["step"] == 1 and names["found"] == [3, 4, 5] and "big" not in names


def test_question_ends_in_an_expression():
    with pytest.raises(SyntaxError):
        question("x = 1", {}, {})
