"""The judge asks from outside, and a session that ends costs one exercise."""

import json
import math
from dataclasses import replace

import pytest
from classroom import (
    ANSWERS,
    RIGHT,
    SMALL,
    WRONG,
    Session,
    StandIn,
    edition,
    small,
)

from coursework.exercises.tasks import Task
from coursework.grade.hidden_tests import close
from coursework.grade.judge import Judge, judge
from coursework.grade.results import Finding
from coursework.grade.splice import splice
from tools.errors import BookError

ENDS_AT_TEXT = "def double(x):\n    return end('time') if x == 'ab' else 2 * x"
TWO_S = "took more than 2 s"


def task_of(answers, assignment=SMALL):
    cells = splice(edition(answers, assignment), assignment).cells
    return Task(assignment, cells, submission="jane")


def judged(answers, tier=None, assignment=SMALL):
    return judge(task_of(answers, assignment), tier or StandIn())


def with_tests(**bodies):
    """Return the assignment with other hidden tests of its first exercise, a line each."""
    assignment = small()
    tests = []
    for name, body in bodies.items():
        tests.append(f"def test_{name}(student, rng):\n    'It.'\n    {body}\n")
    assignment.exercises[0].tests = "\n".join(tests)
    return assignment


def reasons(judgement, number):
    """Return why each test of an exercise fails, or None."""
    return [test.reason for test in judgement.results[number].tests]


# --- what is told of an answer


def test_right_answers_have_all_points():
    judgement = judged(ANSWERS)
    assert judgement.points == 9
    assert judgement.of == 9
    assert judgement.sandbox == "stand-in"

    [test, _] = judgement.results[1].tests
    assert test.name == "test_numbers"
    assert test.about == "Doubles any number."
    assert test.passed
    assert test.points == 2
    assert test.of == 2
    assert test.inputs == {}


def test_a_wrong_answer_is_told_its_error_and_inputs():
    question = judged({1: WRONG[1] + "\n1 / 0"}).results[1]
    assert question.error == "ZeroDivisionError"
    assert 5 <= question.tests[0].inputs["n"] < 400


@pytest.mark.parametrize("above", ["", "x = 1\n", "if 0: torch" + ".a" * 900 + "\n"])
def test_a_known_wrong_answer_has_the_masters_remark(above):
    question = judged({1: f"{above}{WRONG[1]}  # mine"}).results[1]
    assert question.remark == "It is 2, not 2.5."


@pytest.mark.parametrize(
    "answer",
    [f"{WRONG[1]}\nx = 1", "def double(x):\n    return x * 3.5", "double = 1"],
)
def test_another_wrong_answer_has_no_remark(answer):
    assert judged({1: answer}).results[1].remark is None


def test_each_exercise_has_its_own_remark():
    assert judged({2: WRONG[2]}).results[2].remark == "It is one of them."


RAISES_SECRET = """
class SECRET(Exception): pass
def total(xs):
    raise SECRET
raise SECRET"""
SAYS_SECRET = """
def total(xs):
    print('SECRET', xs)
    if xs:
        raise ValueError('SECRET', xs)
    return 'SECRET'
"""


@pytest.mark.parametrize("answer", [SAYS_SECRET, RAISES_SECRET])
def test_no_word_of_a_student_reaches_a_result(answer):
    judgement = judged(ANSWERS | {1: ENDS_AT_TEXT, 2: answer})
    assert "SECRET" not in repr(judgement)


def test_an_error_is_told_by_its_name_if_python_has_it():
    answers = {1: "def double(x):\n    return 1 / 0", 2: RAISES_SECRET}
    questions = judged(ANSWERS | answers).results
    python = [test.error for test in questions[1].tests]
    assert python == ["ZeroDivisionError", "ZeroDivisionError"]
    own = [test.error for test in questions[2].tests]
    assert own == ["an error of its own class", "an error of its own class"]


WON_AND_LOST = """
@points(WON)
def test_won(student, rng):
    assert student.ask('total([1, 2])') == 3

@points(LOST)
def test_lost(student, rng):
    assert student.ask('total([1, 2])') == 4
"""


def with_share(won, most, worth):
    """Return the assignment in which right answers to exercise 2 get `won` of `most`."""
    assignment = small()
    tests = WON_AND_LOST.replace("WON", str(won)).replace("LOST", str(most - won))
    assignment.exercises[1].tests = tests
    assignment.exercises[1].points = worth
    return assignment


@pytest.mark.parametrize(
    ("won", "most", "worth", "points"),
    [
        (1, 3, 3, "1"),
        (1, 3, 2, "0.5"),
        (1, 3, 4, "1"),
        (1, 3, 1, "0"),
        (1, 4, 1, "0"),
        (2, 4, 1, "0.5"),
        (3, 4, 1, "0.5"),
        (3, 4, 2, "1.5"),
        (99, 100, 3, "2.5"),
        (7, 10, 10, "7"),
    ],
)
def test_points_are_rounded_down_to_the_half(won, most, worth, points):
    judgement = judged(ANSWERS, assignment=with_share(won, most, worth))
    assert json.dumps(judgement.results[2].points) == points


def test_an_answer_that_loses_a_quarter_is_asked_again():
    assignment = with_share(3, 4, 1)
    question = assignment.exercises[1]
    question.remarks[0] = replace(question.remarks[0], code=ANSWERS[2])
    tier = StandIn()

    judgement = judged(ANSWERS, tier, assignment)

    assert tier.sessions == 2
    assert judgement.results[2].remark == "It is one of them."


# --- sessions that end


@pytest.mark.parametrize("below", ["", "\nend('memory')"])
def test_session_that_ends_costs_one_exercise(below):
    answer = f"def total(xs):\n    return end('memory') if xs else 0{below}"
    judgement = judged(ANSWERS | {2: answer})
    assert judgement.results[2].points == 0
    assert judgement.points == 6
    assert judgement.findings == [Finding("memory", 2, "ended its session: memory")]


def test_an_end_is_laid_to_no_blank_exercise():
    ended = Finding("memory", 1, "ended its session: memory")
    assert judged({1: "end('memory')"}).findings == [ended]


def test_an_end_leaves_the_points_before_it():
    more = "def test_more(student, rng):\n    'More.'\n"
    assignment = small()
    assignment.exercises[0].tests = f"{SMALL.exercises[0].tests}\n{more}"
    assignment.exercises[0].points = 4
    answers = ANSWERS | {1: ENDS_AT_TEXT}

    judgement = judged(answers, assignment=assignment)

    not_asked = "not run, because an earlier test ended the session"
    assert reasons(judgement, 1) == [None, TWO_S, not_asked]
    assert judgement.points == 8
    assert judged(answers, assignment=assignment) == judgement


def test_no_more_sessions_are_started_than_are_ended():
    tier = StandIn()
    crash = "end('crash')"
    assert judged({1: crash, 2: crash, 3: crash}, tier).points == 0
    assert tier.sessions == 3


def test_cells_above_the_exercises_are_left_out_if_they_end():
    task = task_of(ANSWERS)
    task.cells[None] = ["end('time')"]
    judgement = judge(task, StandIn())
    assert judgement.points == 9
    assert judgement.findings[0].kind == "preamble"


def test_a_given_cell_that_ends_is_nobodys_fault():
    assignment = small(given="end('memory')")
    words = r"small: a given cell ended the session \(memory\)"
    with pytest.raises(BookError, match=words):
        judged(RIGHT, assignment=assignment)


ENDS_AFTER_ANOTHER = """
def total(xs):
    return end('crash') if 'ended' in globals() else sum(xs)
"""


def test_an_exercise_that_another_ended_is_asked_by_itself():
    answers = {1: f"{ANSWERS[1]}\nended = []", 2: ENDS_AFTER_ANOTHER}
    judgement = judged(ANSWERS | answers)
    assert judgement.points == 9
    assert judgement.findings == []


def test_a_blank_exercise_is_not_asked_a_second_time():
    tier = StandIn()
    assert judged({1: ANSWERS[1]}, tier).points == 3
    assert tier.sessions == 1


@pytest.mark.parametrize(
    ("number", "line"),
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
def test_no_answer_costs_another_one_points(number, line):
    answers = ANSWERS | {2: "def total(xs):\n    return sum(xs)"}
    answers[number] += f"\n{line}"
    assert judged(answers).points == 9


# --- hidden tests


def test_each_test_of_each_class_draws_its_own_inputs():
    asks = "student.ask('no', n=rng.random())"
    draws = set()
    for seed in ("00", "01"):
        assignment = with_tests(a=asks, b=asks)
        assignment.seed = seed
        assignment.exercises[1].tests = assignment.exercises[0].tests
        questions = judged(ANSWERS, assignment=assignment).results
        for test in [*questions[1].tests, *questions[2].tests]:
            draws.add(test.inputs["n"])
    assert len(draws) == 8


def test_an_answer_of_another_form_fails_its_test():
    assignment = with_tests(form="assert student.ask('double(1)')['a'][2] == 1")
    judgement = judged(ANSWERS, assignment=assignment)
    assert reasons(judgement, 1) == [
        "the result does not have the form that the task asks for"
    ]


def test_an_instructor_learns_at_which_line_a_test_broke_off():
    body = "x = student.ask('double(1)')\n    assert x['a'] == 1"
    assignment = with_tests(fine="pass", form=body)

    judgement = judged(ANSWERS, assignment=assignment)

    line = "test_form broke off with a TypeError in line 8 of the hidden tests"
    assert judgement.findings == [
        Finding("broken test", 1, f"{line}: assert x['a'] == 1")
    ]


def test_a_test_that_cannot_be_called_is_told_without_a_line():
    assignment = with_tests(fine="pass")
    assignment.exercises[0].tests += "\ndef test_form(student):\n    'It.'\n"
    [finding] = judged(ANSWERS, assignment=assignment).findings
    assert finding.text == "test_form broke off with a TypeError"


@pytest.mark.parametrize("then", ["pass", "1 / 0"])
def test_a_test_that_catches_the_end_has_failed_all_the_same(then):
    catches = f"try: student.ask(\"double('ab')\")\n    except Exception: {then}"
    assignment = with_tests(catches=catches)
    judgement = judged(ANSWERS | {1: ENDS_AT_TEXT}, assignment=assignment)
    assert reasons(judgement, 1) == [TWO_S]
    assert [finding.kind for finding in judgement.findings] == ["time"]


VALUE_AND_BETTER = """
@points(1, alone=False)
def test_value(student, rng):
    'Value.'
    assert student.ask('double(2)') == 4

@points(2)
def test_better(student, rng):
    'Better.'
    assert student.ask('double(3)') == BETTER
"""


def judged_as_better(value):
    """Judge right answers of which a test demands this value of 3 doubled."""
    assignment = small()
    assignment.exercises[0].tests = VALUE_AND_BETTER.replace("BETTER", value)
    return judged(ANSWERS, assignment=assignment)


def test_what_the_given_program_passes_counts_with_another():
    judgement = judged_as_better("6")
    assert judgement.results[1].points == 3
    assert reasons(judgement, 1) == [None, None]


def test_what_the_given_program_passes_earns_nothing_alone():
    judgement = judged_as_better("7")
    assert judgement.results[1].points == 0
    no_better = "right, but no better than the program that was given"
    assert reasons(judgement, 1)[0] == no_better


def test_a_test_takes_no_longer_than_its_limit(monkeypatch):
    """What a hidden test does with an answer may take long, whoever shaped it so."""
    monkeypatch.setattr("coursework.grade.judge.TEST_SECONDS", 0.3)
    assignment = with_tests(long="while student.ask('double(1)'): pass")
    judgement = judged(ANSWERS, assignment=assignment)
    assert reasons(judgement, 1) == ["the result is too large to examine"]
    assert judgement.points == 6


TAKES_LONG = """
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
    assignment = with_tests(waits=waits)
    judgement = judged(ANSWERS | {1: TAKES_LONG}, assignment=assignment)
    assert reasons(judgement, 1) == [None]


# The 3000 s of three exercises are counted four times.
@pytest.mark.parametrize(("slack", "points"), [(-11_900, 9), (-12_001, 0)])
def test_a_submission_has_four_times_its_seconds_and_slack(slack, points, monkeypatch):
    monkeypatch.setattr("coursework.grade.judge.SLACK", slack)
    assignment = small()
    for question in assignment.exercises:
        question.seconds = 1000
    judgement = judged(ANSWERS, assignment=assignment)
    assert judgement.points == points
    if points == 0:
        late = "was stopped, because all exercises together took too long"
        assert reasons(judgement, 1) == [late, late]
        text = "was stopped, as the notebook took more than -1 s"
        assert judgement.findings[0] == Finding("notebook-time", 1, text)


def test_a_notebook_may_run_out_of_time_between_two_tests(monkeypatch):
    late = False
    monkeypatch.setattr(Judge, "_is_out_of_time", lambda judge: late)

    class Waits(Session):
        """A session in which answering the first question takes all the time."""

        def ask(self, *question, **options):
            nonlocal late
            late = True
            return super().ask(*question, **options)

    monkeypatch.setattr("classroom.Session", Waits)

    judgement = judged(ANSWERS)

    stopped = "was stopped, because all exercises together took too long"
    assert reasons(judgement, 1) == [None, stopped]
    assert reasons(judgement, 2) == [stopped, stopped]


def test_a_measurement_with_a_gap_counts_for_nothing():
    answer = "def total(xs):\n    return gap('its record is not whole')"
    judgement = judged(ANSWERS | {2: answer})
    reason = "the measurement is incomplete, so it does not count; your instructor can see why"
    assert reasons(judgement, 2) == [reason, reason]
    assert judgement.points == 6
    # It is told once.
    text = "its measurement is void: its record is not whole"
    assert judgement.findings == [Finding("gap", 2, text)]


# --- what was given

ASKS_WHAT_WAS_GIVEN = """
def test_given(student, rng):
    'Given.'
    assert student.ask('given(1)') == 0
    assert student.reference('given(1)') == 2
    assert student.replay('given(n)', n=student.ask('double(1)')) == 3
"""


def judged_by_what_was_given(tests):
    """Judge an answer that replaces the program that its exercise gave."""
    assignment = small()
    question = assignment.exercises[0]
    question.starter = "def given(n):\n    return n + 1\n\ndouble = ..."
    question.tests = tests
    answer = f"given = lambda n: 0\n{ANSWERS[1]}"
    return judged(ANSWERS | {1: answer}, assignment=assignment)


def test_figures_of_what_was_given_come_from_another_session():
    assert judged_by_what_was_given(ASKS_WHAT_WAS_GIVEN).points == 9


def test_data_that_break_the_given_program_are_the_answers():
    tests = ASKS_WHAT_WAS_GIVEN.replace("replay('given(n)'", "replay('1 / 0'")
    judgement = judged_by_what_was_given(tests)
    assert reasons(judgement, 1) == ["your code raised an error"]


def test_a_reference_that_fails_is_the_masters_fault():
    tests = ASKS_WHAT_WAS_GIVEN.replace("reference('given(1)'", "reference('1 / 0'")
    with pytest.raises(BookError, match="reference of its hidden tests fails"):
        judged_by_what_was_given(tests)


def test_the_given_program_is_asked_once_for_all_submissions():
    asks_twice = "student.reference('double(21)') or student.reference('double(21)')"
    assignment = with_tests(given=asks_twice)
    assignment.exercises[0].starter = "double = abs  # asked once"
    tier = StandIn()

    assert judged(ANSWERS, tier, assignment).points == 9
    assert tier.sessions == 2
    assert judged(ANSWERS, tier, assignment).points == 9
    assert tier.sessions == 3


# --- cells


def test_magics_are_left_out():
    magics = ["%%time", "!pip install x", "%matplotlib inline", RIGHT[1], "double?"]
    magics.append("y = %time double(1)")
    tier = StandIn()

    assert judged(ANSWERS | {1: "\n".join(magics)}, tier).points == 9

    ran = "".join(tier.ran)
    for sign in "%!?":
        assert sign not in ran


def test_a_cell_of_another_language_is_no_answer():
    judgement = judged(ANSWERS | {1: "%%bash\nrm -rf /"})
    assert judgement.results[1].points == 0


def test_an_exercise_begins_with_its_first_cell():
    task = task_of(ANSWERS)
    task.cells[1] = ["x = 1", ANSWERS[1]]
    tier = StandIn()
    assert judge(task, tier).points == 9
    assert tier.given == [SMALL.given]
    assert tier.begun == ["x = 1", ANSWERS[2], ANSWERS[3]]


@pytest.mark.parametrize(("total", "check"), [(5, "passes"), (6, "fails")])
def test_a_public_check_may_build_on_what_is_shown(total, check):
    task = task_of(ANSWERS, small())
    task.checks = True
    question = task.assignment.exercises[1]
    question.demo = "shown = total([2, 3])"
    question.checks = [f"assert shown == {total}"]
    assert judge(task, StandIn()).results[2].check == check


# --- numbers that are close


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
