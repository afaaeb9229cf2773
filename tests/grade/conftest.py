"""What tests of grading share."""

import json
import os
import secrets
import zipfile
from dataclasses import replace

import pytest
from classroom import SMALL, StandIn, edition
from helpers import ROOT

from coursework.exercises.assignment import make_drafts
from coursework.exercises.tasks import draws_of
from coursework.grade import command
from coursework.grade.judge import judge
from coursework.grade.sandbox import NoSandbox, strongest
from tools.errors import BookError

# Something in the judge's environment, before its first sandbox starts, that no session
# may have.
os.environ["HOSTILE_SECRET"] = secrets.token_hex(16)


@pytest.fixture(scope="session")
def sandbox():
    """The strongest sandbox of this machine, or a skip that says why there is none.

    It imports PyTorch once; every session of a process of these tests is forked from it.
    """
    try:
        return strongest()
    except NoSandbox as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def drafts():
    """Master and assignment of each chapter of this book, by name: only read them."""
    all_drafts = make_drafts(ROOT, ROOT / "masters", draws_of(None))
    return {draft.master.name: draft for draft in all_drafts}


class Grade:
    """`make grade` in this process, of students by name.

    A student has answers, a notebook, or the text of a file. A key is the fingerprint
    itself. `asked` holds the students who were judged; grading can be stopped after some
    of them, and fails for those who are `ill`.
    """

    def __init__(self, folder):
        self.folder = folder
        self.assignments = [SMALL]
        self.asked = []
        self.stop_after = None
        self.ill = ()

    def engine(self, tasks):
        for place, task in enumerate(tasks):
            if place == self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(task.student)
            if task.student in self.ill:
                yield task, BookError("it is ill")
            else:
                yield task, judge(task, StandIn())

    def __call__(self, students, key=SMALL.group, assignment=SMALL, out="out"):
        self.asked = []
        with zipfile.ZipFile("week.zip", "w") as archive:
            for student, hand_in in students.items():
                text = file_text(hand_in, assignment)
                archive.writestr(f"{student}.ipynb", text)
        folder = self.folder / out if out else None
        command.grade_class(self.folder / "week.zip", key, out=folder)


def file_text(hand_in, assignment):
    """Return the text of a file: of answers by number, of a notebook, or of a text."""
    if isinstance(hand_in, str):
        return hand_in
    if set(hand_in) <= {1, 2, 3}:
        hand_in = edition(hand_in, assignment)
    return json.dumps(hand_in)


@pytest.fixture
def grade(tmp_path, monkeypatch):
    """Grades students in this process by a stand-in for a sandbox: see `Grade`."""
    monkeypatch.chdir(tmp_path)
    grade = Grade(tmp_path)

    def assignments_of(key, masters=None, choice=None):
        group = key or "book"
        return {item.name: replace(item, group=group) for item in grade.assignments}

    monkeypatch.setattr(command, "assignments_of", assignments_of)
    monkeypatch.setattr(command, "engine_for", lambda workers, address: grade.engine)
    return grade


@pytest.fixture
def out(tmp_path):
    """The folder into which `grade` writes."""
    return tmp_path / "out"
