"""What tests of grading share."""

import json
import os
import secrets
import zipfile
from dataclasses import replace

import pytest
from classroom import SMALL, StandIn, edition

from coursework.grade import command
from coursework.grade.judge import judge
from coursework.grade.sandbox import NoSandbox, strongest
from tools.errors import BookError

# Something in the judge's environment, before its first sandbox starts, that no session may have.
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


class Grade:
    """`make grade` in this process, of students by name: their answers, or what their file holds.

    KEYS are the fingerprints themselves. It notes whom it asked, and may be stopped or fail.
    """

    def __init__(self, folder):
        self.folder, self.asked, self.stop_after, self.ill = folder, [], None, ()
        self.assignments = [SMALL]

    def engine(self, tasks):
        for place, task in enumerate(tasks):
            if place == self.stop_after:
                raise KeyboardInterrupt
            self.asked.append(task.student)
            is_ill = task.student in self.ill
            yield task, BookError("it is ill") if is_ill else judge(task, StandIn())

    def __call__(self, students, key=SMALL.group, assignment=SMALL, out="out"):
        self.asked = []
        with zipfile.ZipFile("week.zip", "w") as archive:
            for student, answers in students.items():
                made = (
                    edition(answers, assignment)
                    if set(answers) <= {1, 2, 3}
                    else answers
                )
                text = made if isinstance(made, str) else json.dumps(made)
                archive.writestr(f"{student}.ipynb", text)
        command.grade_class(
            self.folder / "week.zip", key, out=out and self.folder / out
        )


@pytest.fixture
def grade(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Grade(tmp_path)

    def assignments_of(key, masters=None, choice=None):
        return {one.name: replace(one, group=key or "book") for one in made.assignments}

    monkeypatch.setattr(command, "assignments_of", assignments_of)
    monkeypatch.setattr(command, "engine_for", lambda workers, address: made.engine)
    return made
