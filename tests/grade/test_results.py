"""A grade outlives being saved, and files of earlier versions are still read."""

import json
from datetime import UTC, datetime

from classroom import SMALL

from coursework.exercises.tasks import Task
from coursework.grade.results import (
    ExerciseResult,
    Finding,
    Grade,
    PartByHand,
    Penalty,
    ReachEntry,
    TestResult,
)

TEST = TestResult(
    name="test_a",
    about="It.",
    passed=False,
    points=0,
    of=2,
    reason="wrong",
    error="ValueError",
    inputs={"n": [1, "a"]},
)
QUESTION = ExerciseResult(
    points=0,
    of=2,
    tests=[TEST],
    blank=False,
    check="not run",
    remark=None,
    ended=None,
    error="ValueError",
)
GRADE = Grade(
    submission="ann-1",
    student="Ann",
    handed_in=datetime(2026, 2, 2, 12, tzinfo=UTC),
    assignment="small",
    group="book",
    made_from=("small", "0123456789ab"),
    key="abc",
    findings=[Finding("cells", 1, "moved")],
    reach=[ReachEntry(None, 1, "looks", "x")],
    answers={1: "a", 10: "b", 2: "c"},
    comments={2: [[3, "# so"]]},
    lines={1: {"_ = 1": 2}},
    results={10: QUESTION},
    by_hand={2: PartByHand(2, 1.5, "good")},
    points=1.5,
    of=4,
    penalty=Penalty(1, 10, 0.15),
    points_after=1.35,
)
# What files of earlier versions do not hold.
NEW_FIELDS = ("reach", "comments", "lines", "penalty", "points_after", "handed_in")


def test_a_grade_is_the_same_when_it_is_read_again():
    text = json.dumps(GRADE.as_json(), sort_keys=True)
    grade = Grade.from_json(json.loads(text))
    assert grade == GRADE
    # Exercises are numbers, not texts.
    assert list(grade.answers) == [1, 2, 10]
    assert json.dumps(grade.as_json(), sort_keys=True) == text


def test_the_file_of_what_was_not_graded_holds_no_points():
    refused = Grade("ann-1", "Ann", reason="cut short").as_json()
    assert not refused.keys() & {"key", "points", "of", "penalty", "points_after"}
    assert Grade.from_json(refused).reason == "cut short"


def test_a_file_of_an_earlier_version_is_read():
    entry = GRADE.as_json()
    for name in NEW_FIELDS:
        del entry[name]
    grade = Grade.from_json(entry)
    assert grade.results == {10: QUESTION}
    assert grade.penalty is None


def test_a_file_of_a_later_version_is_read():
    assert Grade.from_json(GRADE.as_json() | {"of_a_later_version": 1}) == GRADE


def test_a_task_travels_as_json():
    cells = {None: ["import math"], 1: ["x = 1"]}
    task = Task(SMALL, cells, "ann-1", "Ann", key="abc", checks=True)
    text = json.dumps(task.as_json())
    assert Task.from_json(json.loads(text)) == task
