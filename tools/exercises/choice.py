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

KNOWN = {"chapter": str, "exercises": list, "points": dict, "due": datetime}


@dataclass(frozen=True)
class Choice:
    """What is set of one chapter: all of it, or what a file says."""

    where: str  # the file, or the CHAPTER= that was typed
    chapter: str
    exercises: list[int] = field(default_factory=list)  # none named: all
    points: dict[str, int] = field(default_factory=dict)  # by the number of an exercise
    due: datetime | None = None

    @property
    def is_whole(self) -> bool:
        """Is it the chapter as it is?"""
        return not (self.exercises or self.points or self.due)

    def of(self, master: Master) -> Master:
        """The master with the exercises that are set, under their own numbers. Raises BookError."""
        numbers = {exercise.number for exercise in master.exercises}
        wanted = set(self.exercises) or numbers
        for number in sorted({*wanted, *map(int, self.points)} - numbers):
            raise BookError(
                f"{self.where}: {master.name} has no exercise {number}; choose from 1 to "
                f"{max(numbers)}"
            )
        kept = [exercise for exercise in master.exercises if exercise.number in wanted]
        worth = [self.points.get(str(exercise.number), exercise.points) for exercise in kept]
        pairs = zip(kept, worth, strict=True)
        exercises = [replace(exercise, points=points) for exercise, points in pairs]
        return replace(master, exercises=exercises)


def read_choice(path: Path) -> Choice:
    """The choice that a file makes. Raises BookError if it is not one."""
    try:
        said = tomllib.loads(read_text(path, path.parent))
    except tomllib.TOMLDecodeError as error:
        raise BookError(f"{path}: not TOML ({error}); correct it there") from None
    for name, value in said.items():
        if name not in KNOWN or not isinstance(value, KNOWN[name]):
            words = ", ".join(f"{name} ({kind.__name__})" for name, kind in KNOWN.items())
            raise BookError(f"{path}: '{name}' is not one of {words}; correct it there")
    whole = [*said.get("exercises", []), *said.get("points", {}).values()]
    if "chapter" not in said or not all(isinstance(n, int) and n > 0 for n in whole):
        raise BookError(f'{path}: write chapter = "name", and whole numbers above 0 for the rest')
    if not all(number.isdecimal() for number in said.get("points", {})):
        raise BookError(f"{path}: write points as {{3 = 5}}: the exercise, then what it is worth")
    if "due" in said and said["due"].tzinfo is None:
        raise BookError(f"{path}: due has no time zone; write 2026-12-01T12:00:00+01:00")
    return Choice(str(path), **said)


def choice_of(chapter: str | None, file: Path | None) -> Choice | None:
    """What is set, by a chapter's name or by a file; None is everything. Raises BookError."""
    if file and chapter:
        raise BookError(f"CHAPTER={chapter}: {file} names a chapter, too; leave out one of both")
    if file:
        return read_choice(file)
    return Choice(f"CHAPTER={chapter}", chapter) if chapter else None
