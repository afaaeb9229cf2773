"""The judge asks from outside, and a session that ends costs the exercise in which it ended."""

import json
import math

import pytest
from classroom import HERE, RIGHT, SMALL, WRONG, StandIn, edition, small

from coursework.exercises.tasks import Task
from coursework.grade.hidden_tests import close
from coursework.grade.judge import judge
from coursework.grade.results import Finding
from coursework.grade.splice import splice
from tools.errors import BookError

LEAK = """
def total(xs):
    print('SECRET', xs)
    if xs:
        raise ValueError('SECRET', xs)
    return 'SECRET'
"""
NAMED = "class SECRET(Exception): pass\ndef total(xs):\n    raise SECRET\nraise SECRET"
END = "def double(x):\n    return end('time') if x == 'ab' else 2 * x"


def task_of(answers, assignment=SMALL):
    cells = splice(edition(answers, assignment), assignment).cells
    return Task(assignment, cells, submission="jane")


def graded(answers, tier=None, assignment=SMALL):
    return judge(task_of(answers, assignment), tier or StandIn())


def with_tests(tests):
    """The assignment whose first exercise has other hidden tests, a line each."""
    assignment = small()
    lines = (
        f"def test_{name}(student, rng):\n    'It.'\n    {line}\n"
        for name, line in tests
    )
    assignment.exercises[0].tests = "\n".join(lines)
    return assignment


def reasons(result, number):
    return [test.reason for test in result.results[number].tests]


def test_what_is_said_of_right_and_wrong_answers():
    result = graded(HERE)
    assert result.points == result.of == 9 and result.sandbox == "stand-in"
    [test, _] = result.results[1].tests
    assert (test.name, test.about) == ("test_numbers", "Doubles any number.")
    assert (test.passed, test.points, test.of, test.inputs) == (
        True,
        2,
        2,
        {},
    )
    wrong = graded({1: WRONG[1] + "\n1 / 0"}).results[1]
    assert wrong.error == "ZeroDivisionError"
    assert 5 <= wrong.tests[0].inputs["n"] < 400
    for before in ("", "x = 1\n", "if 0: torch" + ".a" * 900 + "\n"):
        known = graded({1: before + WRONG[1] + "  # mine"}).results[1]
        assert known.remark == "It is 2, not 2.5."  # the master's, of that very answer


def test_session_that_ends_costs_one_exercise():
    said = Finding("memory", 2, "ended its session: memory")
    for below in ("", "\nend('memory')"):
        asked = f"def total(xs):\n    return end('memory') if xs else 0{below}"
        result = graded(HERE | {2: asked})
        assert result.results[2].points == 0 and result.points == 6
        assert result.findings == [said]
    said.exercise = 1
    assert graded({1: "end('memory')"}).findings == [said]  # not a blank one


def test_an_end_leaves_the_points_before_it_and_asks_no_more():
    tests = SMALL.exercises[0].tests + "\ndef test_more(student, rng):\n    'More.'\n"
    assignment = small()
    assignment.exercises[0].tests = tests
    assignment.exercises[0].points = 4
    result = graded(HERE | {1: END}, assignment=assignment)
    late = "not asked, as a test before it ended the session"
    assert reasons(result, 1) == [None, "took more than 2 s", late]
    assert result.points == 8
    again = graded(HERE | {1: END}, assignment=assignment)
    assert again == result


def test_no_more_sessions_are_started_than_are_ended():
    tier = StandIn()
    assert graded(dict.fromkeys((1, 2, 3), "end('crash')"), tier).points == 0
    assert tier.sessions == 3
    task = task_of(HERE)
    task.cells[None] = ["end('time')"]  # cells above the exercises are left out
    result = judge(task, StandIn())
    assert result.points == 9 and result.findings[0].kind == "preamble"
    with pytest.raises(
        BookError, match=r"small: a given cell ended the session \(memory\)"
    ):
        graded(
            RIGHT, assignment=small(given="end('memory')")
        )  # which is nobody's fault


@pytest.mark.parametrize(
    ("number", "more"),
    [
        (1, "sum = range = 5"),
        (1, "for xs in [1]: s = 1 / 0"),
        (1, "math = None"),
        # An answer is asked as it stood when its own cell had run.
        (3, "double = total = 5"),
        (3, "sum = len = range = 5"),
        (3, "import math\ndel double"),
    ],
)
def test_no_answer_costs_another_one_points(number, more):
    answers = HERE | {2: "def total(xs):\n    return sum(xs)"}
    assert graded(answers | {number: f"{answers[number]}\n{more}"}).points == 9


def test_nothing_that_a_student_says_reaches_a_result():
    for answer in (LEAK, NAMED):
        assert "SECRET" not in repr(graded(HERE | {2: answer, 1: END}))


def test_each_test_of_each_class_draws_its_own_inputs():
    asks = "student.ask('no', n=rng.random())"
    drawn = set()
    for seed in ("00", "01"):
        assignment = with_tests([("a", asks), ("b", asks)])
        assignment.seed = seed
        assignment.exercises[1].tests = assignment.exercises[0].tests
        questions = graded(HERE, assignment=assignment).results
        for test in [*questions[1].tests, *questions[2].tests]:
            drawn.add(test.inputs["n"])
    assert len(drawn) == 8


def test_a_test_that_goes_astray_stops_nothing():
    form = with_tests([("form", "assert student.ask('double(1)')['a'][2] == 1")])
    said = ["the result is not of the form asked for"]
    assert reasons(graded(HERE, assignment=form), 1) == said
    swallows = "try: student.ask(\"double('ab')\")\n    except StudentError: pass"
    ended = graded(HERE | {1: END}, assignment=with_tests([("catches", swallows)]))
    assert reasons(ended, 1) == ["took more than 2 s"]  # though the test catches it


def test_a_test_that_the_given_program_passes_earns_nothing_alone():
    tests = (
        "@points(1, alone=False)\ndef test_value(student, rng):\n    'Value.'\n"
        "    assert student.ask('double(2)') == 4\n"
        "@points(2)\ndef test_better(student, rng):\n    'Better.'\n"
        "    assert student.ask('double(3)') == {right}\n"
    )
    assignment = small()
    for right, points, said in (
        (6, 3, [None, None]),
        (7, 0, ["right, and no better than the program that was given"]),
    ):
        assignment.exercises[0].tests = tests.format(right=right)
        result = graded(HERE, assignment=assignment)
        assert result.results[1].points == points
        assert reasons(result, 1)[: len(said)] == said


def test_the_judge_itself_spends_no_time_outside_a_limit(monkeypatch):
    """What a hidden test does with an answer may take long, whoever shaped it so."""
    monkeypatch.setattr("coursework.grade.judge.TEST_SECONDS", 0.3)
    assignment = with_tests([("long", "while student.ask('double(1)'): pass")])
    result = graded(HERE, assignment=assignment)
    assert reasons(result, 1) == ["the result takes too long to look through"]
    assert result.points == 6


LONG = """
import time
def double(x):
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        pass
    return 2 * x
"""


def test_time_in_which_the_judge_waits_is_not_counted(monkeypatch):
    monkeypatch.setattr("coursework.grade.judge.TEST_SECONDS", 0.3)
    waits = "import time; assert student.ask('double(2)') == 4; time.sleep(0.5)"
    assignment = with_tests([("waits", waits)])
    assert reasons(graded(HERE | {1: LONG}, assignment=assignment), 1) == [None]


def test_an_error_of_an_answer_is_told_by_its_name_if_python_has_it():
    answers = {1: "def double(x):\n    return 1 / 0", 2: NAMED}
    result = graded(HERE | answers)
    errors = [[test.error for test in result.results[n].tests] for n in (1, 2)]
    assert errors == [["ZeroDivisionError"] * 2, ["an error of its own class"] * 2]


ENDED_BY_ANOTHER = """
def total(xs):
    return end('crash') if 'ended' in globals() else sum(xs)
"""


def test_an_exercise_that_another_ended_is_asked_again_by_itself():
    tier = StandIn()
    answers = HERE | {1: f"{HERE[1]}\nended = []", 2: ENDED_BY_ANOTHER}
    result = graded(answers, tier)
    assert result.points == 9 and result.findings == []


def test_figures_of_what_was_given_come_from_a_session_without_answers():
    assignment = small()
    question = assignment.exercises[0]
    question.starter = "def given(n):\n    return n + 1\n\ndouble = ..."
    question.tests = (
        "def test_given(student, rng):\n    'Given.'\n"
        "    assert student.ask('given(1)') == 0 and student.reference('given(1)') == 2\n"
        "    assert student.replay('given(n)', n=student.ask('double(1)')) == 3\n"
    )
    answer = {1: f"given = lambda n: 0\n{HERE[1]}"}
    assert graded(HERE | answer, assignment=assignment).points == 9
    question.tests = question.tests.replace(
        "student.replay('given(n)'", "student.replay('1 / 0'"
    )
    result = graded(HERE | answer, assignment=assignment)
    assert reasons(result, 1) == ["your code raised an error"]
    question.tests = question.tests.replace(
        "reference('given(1)')", "reference('1 / 0')"
    )
    with pytest.raises(BookError, match="reference of its hidden tests fails"):
        graded(HERE | answer, assignment=assignment)


def test_magics_behave():
    answer = f"%%time\n!pip install x\n%matplotlib inline\n{RIGHT[1]}\ndouble?\ny = %time double(1)"
    tier = StandIn()
    assert graded(HERE | {1: answer}, tier).points == 9
    assert not any(sign in "".join(tier.ran) for sign in "%!?")
    assert graded(HERE | {1: "%%bash\nrm -rf /"}).results[1].points == 0


def test_a_remark_is_of_that_very_answer():
    for answer in (
        f"{WRONG[1]}\nx = 1",
        "def double(x):\n    return x * 3.5",
        "double = 1",
    ):
        assert graded({1: answer}).results[1].remark is None
    assert graded({2: WRONG[2]}).results[2].remark == "It is one of them."


def test_points_are_whole_or_to_the_half():
    assignment = small()
    for points, won in (
        (3, "1"),
        (2, "0.5"),
        (4, "1.5"),
        (1, "0.5"),
    ):  # of which a third is won
        assignment.exercises[0].points = points
        answer = "def double(x):\n    return 'abab' if x == 'ab' else 0"
        found = graded({1: answer}, assignment=assignment).results[1].points
        assert json.dumps(found) == won


def test_all_cells_of_a_submission_have_four_times_its_seconds_and_some_slack(
    monkeypatch,
):
    assignment = small()
    for question in assignment.exercises:
        question.seconds = 1000
    for slack, points in ((-11_900, 9), (-12_001, 0)):
        monkeypatch.setattr("coursework.grade.judge.SLACK", slack)
        result = graded(HERE, assignment=assignment)
        assert result.points == points
    assert reasons(result, 1) == ["took more than 1000 s"] * 2


def test_what_is_given_is_told_apart_and_an_exercise_begins_with_its_first_cell():
    task, tier = task_of(HERE), StandIn()
    task.cells[1] = ["x = 1", HERE[1]]
    assert judge(task, tier).points == 9
    assert tier.given == [SMALL.given]
    assert tier.begun == ["x = 1", HERE[2], HERE[3]]


def test_a_blank_exercise_is_not_asked_a_second_time():
    tier = StandIn()
    assert graded({1: HERE[1]}, tier).points == 3
    assert tier.sessions == 1


def test_a_public_check_of_a_master_may_build_on_what_is_shown():
    task = task_of(HERE, small())
    task.checks = True
    question = task.assignment.exercises[1]
    question.demo = "shown = total([2, 3])"
    question.checks = ["assert shown == 5"]
    assert judge(task, StandIn()).results[2].check == "passes"
    question.checks = ["assert shown == 6"]
    assert judge(task, StandIn()).results[2].check == "fails"


def test_a_measurement_with_a_gap_counts_for_nothing_and_is_told_once():
    answer = "def total(xs):\n    return gap('its record is not whole')"
    result = graded(HERE | {2: answer})
    said = "its measurement is not whole, so it counts for nothing; your instructor sees why"
    assert reasons(result, 2) == [said] * 2
    assert result.points == 6
    text = "its measurement is void: its record is not whole"
    assert result.findings == [Finding("gap", 2, text)]


def test_a_program_that_was_given_is_asked_once_for_all_submissions():
    code = "student.reference('double(21)') or student.reference('double(21)')"
    assignment = with_tests([("given", code)])
    assignment.exercises[0].starter = "double = abs  # asked once"
    tier = StandIn()
    for sessions in (2, 3):
        assert graded(HERE, tier, assignment).points == 9
        assert tier.sessions == sessions


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((1.0, [2]), [1, (2.0,)]),
        ([1.0, [2, 3]], [1 + 1e-9, [2, 3.0000001]]),
        (math.nan, math.nan),
    ],
)
def test_what_is_close(a, b):
    assert close(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([1.0], 1.0),
        ([1.0], [1.0, 2.0]),
        (1, 1.1),
        (True, 1),
        (math.nan, 3),
        ([math.nan], [3.0]),
        (math.inf, -math.inf),
        ("a", "a"),
        (None, None),
    ],
)
def test_what_is_not_close(a, b):
    assert not close(a, b)
    assert not close(b, a)
