"""What a lecturer sets: `assignment.toml`, and masters of their own."""

import json

import pytest
from classroom import StandIn
from helpers import ROOT, refused
from small_masters import Grader, book_of_one, contents, stamp

from tools.book.book import Book
from tools.exercises.assignment import cells_of, read_choice
from tools.exercises.editions import edition
from tools.exercises.masters import copy_masters
from tools.exercises.release import make_drafts, release
from tools.exercises.variants import draws_of
from tools.grade.command import grade
from tools.grade.grade import grade_one, task_of

KEY = "an invented key of this class"
SET = """\
chapter = "small"
exercises = [1]
points = {1 = 2.5}
due = 2026-12-01T12:00:00+01:00
"""


@pytest.fixture
def book(tmp_path):
    return book_of_one(tmp_path / "book")


def chosen(tmp_path, text=SET):
    path = tmp_path / "assignment.toml"
    path.write_text(text, encoding="utf-8")
    return read_choice(path)


def draft(book, choice=None, folder="masters"):
    [made] = make_drafts(book, book.root / folder, draws_of(KEY), choice)
    return made


def test_a_release_holds_what_is_set_and_says_when_it_is_due(book, tmp_path):
    choice, group = chosen(tmp_path), f"{draws_of(KEY).fingerprint}-1"
    done = release(book, Grader(), stamp, KEY, choice=choice)
    assert done == [f"_build/release/{group}: 1 chapter, 1 exercise, 2.5 points"]
    text = contents(book.root / "_build/release" / group)["student/small.ipynb"].decode()
    assert "2.5 points and 2 by hand in all. Due 01 December 2026, 12:00 (UTC+0100)." in text
    assert "answer-1" in text and "answer-2" not in text
    second = draft(book, chosen(tmp_path, 'chapter = "small"\nexercises = [2]'))[1]
    assert [asked["number"] for asked in second["questions"]] == [2] and "due" not in second


def test_points_are_shared_out_among_the_tests_by_halves(book, tmp_path):
    def graded(worth, code):
        _, assignment = draft(book, chosen(tmp_path, SET.replace("2.5", worth)))
        task = task_of(assignment, "x", cells_of(assignment, {1: code}))
        result = grade_one(task, StandIn())["questions"]["1"]
        assert result["of"] == float(worth) == sum(test["of"] for test in result["tests"])
        return result["points"]

    factor = draft(book)[0].exercises[0].drawn["factor"]
    right, wrong = f"times = lambda x: {factor} * x", f"times = lambda x: {factor} * abs(x)"
    assert [graded(worth, right) for worth in ("2.5", "3", "6")] == [2.5, 3, 6]
    assert [graded(worth, wrong) for worth in ("2.5", "3", "6")] == [1.5, 2, 4]


def test_an_edition_of_other_exercises_is_refused(book, tmp_path):
    one, two = chosen(tmp_path), chosen(tmp_path, 'chapter = "small"\nexercises = [2]')
    (tmp_path / "in").mkdir()
    for name, choice in {"ann": one, "bob": two}.items():
        notebook = edition("student", *draft(book, choice), book)
        (tmp_path / "in" / f"{name}.ipynb").write_text(json.dumps(notebook))

    def engine(tasks):
        return ((task, grade_one(task, StandIn())) for task in tasks)

    results = grade(tmp_path / "in", [draft(book, one)[1]], tmp_path / "out", engine)
    assert [result["status"] for result in results] == ["graded", "refused"]
    assert "whose exercises differ" in results[1]["reason"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[1]", "[1", "not valid TOML"),
        ("due", "dew", "'dew' is no key; choose from chapter, exercises, points, due"),
        ('"small"', "1", "'chapter' is not as in: chapter = "),
        ("[1]", "[]", "'exercises' is not as in: exercises = [1, 3]"),
        ("2.5", "2.4", "'points' is not as in: points = {3 = 5"),
        ("+01:00", "", "'due' is not as in: due = 2026-12-01T12:00:00+01:00"),
        ('"small"', '"smal"', "no such master; choose from: small"),
        ("[1]", "[1, 9]", "small has no exercise 9; choose from 1, 2"),
        ("{1 =", "{2 =", "'points' names 2, which is not chosen"),
    ],
)
def test_a_bad_file_is_one_line(book, tmp_path, old, new, words):
    with refused("assignment.toml: ", words):
        draft(book, chosen(tmp_path, SET.replace(old, new)))


def test_masters_of_ones_own_are_a_copy_that_says_that_it_is_private(book, tmp_path):
    mine = tmp_path / "mine"
    copy_masters(book.root / "masters", mine)
    assert "PRIVATE" in (mine / "small.md").read_text().split("---")[1]
    assert draft(book, folder=mine)[1] == draft(book)[1]
    (mine / "small.md").write_text("my own work")
    with refused("mine: not an empty folder"):
        copy_masters(book.root / "masters", mine)
    assert (mine / "small.md").read_text() == "my own work"


def test_every_exercise_of_the_book_is_another_for_a_class():
    drafts = make_drafts(Book(ROOT), ROOT / "masters", draws_of(KEY))
    same = [
        f"{master.name} {exercise.number}"
        for master, _ in drafts
        for exercise in master.exercises
        if not exercise.drawn
    ]
    assert same == []
