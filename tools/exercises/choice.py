"""What an instructor sets of a master: a chapter, or a file with exercises, points, a due date.

chapter = "what-costs-time"
exercises = [1, 3]               # else all of them
points = {3 = 5}                 # else those of the master
due = 2026-12-01T12:00:00+01:00  # else never late but where the download says so
"""

import tomllib
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tools.errors import BookError
from tools.exercises.masters import Master
from tools.files import read_text

LIKE = "exercises = [1, 3], points = {3 = 5}, due = 2026-12-01T12:00:00+01:00"


@dataclass(frozen=True)
class Choice:
    """What is set of one chapter: all of it, or what a file says."""

    where: str  # the file, or the CHAPTER= that was typed
    chapter: str
    exercises: list[int] = field(default_factory=list)  # none named: all
    points: dict[int, int] = field(default_factory=dict)  # by the number of an exercise
    due: datetime | None = None

    def of(self, master: Master) -> Master:
        """The master with the exercises that are set, under their own numbers. Raises BookError."""
        known = [exercise.number for exercise in master.exercises]
        for number in sorted({*self.exercises, *self.points} - {*known}):
            lacks = f"{master.name} has no exercise {number}; choose from 1 to {len(known)}"
            raise BookError(f"{self.where}: {lacks}")
        asked = [one for one in master.exercises if one.number in (self.exercises or known)]
        worth = [replace(one, points=self.points.get(one.number, one.points)) for one in asked]
        return replace(master, exercises=worth)


def read_choice(path: Path) -> Choice:
    """The choice that a file makes. Raises BookError if it is not one."""
    text = read_text(path, path.parent)
    try:
        choice = Choice(str(path), **tomllib.loads(text))
        points = {int(number): worth for number, worth in choice.points.items()}
        if not all(type(n) is int and n > 0 for n in [*choice.exercises, *points.values()]):
            raise ValueError("a number is not a whole one above 0")
        if choice.due and choice.due.tzinfo is None:
            raise ValueError("due has no time zone")
        return replace(choice, points=points)
    except (TypeError, ValueError, AttributeError) as error:
        is_told = isinstance(error, ValueError)
        reason = error if is_told else "an entry is missing, unknown or of another kind"
        raise BookError(f"{path}: {reason}; write the chapter, and if you like {LIKE}") from None


def choice_of(chapter: str | None, file: Path | None) -> Choice | None:
    """What is set, by a chapter's name or by a file; None is everything. Raises BookError."""
    if file and chapter:
        raise BookError(f"CHAPTER={chapter}: {file} names a chapter, too; leave out one of both")
    if file:
        return read_choice(file)
    return Choice(f"CHAPTER={chapter}", chapter) if chapter else None
