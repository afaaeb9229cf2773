"""An assignment: what grading needs of a master, drawn for a class, as plain data.

It crosses processes, machines and zip files, so it holds nothing but what JSON holds.
"""

from dataclasses import asdict, dataclass, field

from tools.book.chapters import SETUP, Chapter
from tools.book.notebooks import tags
from tools.errors import BookError
from tools.exercises.masters import Exercise, Master
from tools.exercises.variants import Draws

Cell = tuple[int | None, str]  # the exercise that a cell of code belongs to, and its source


GIVEN = "# @title Given: what the exercises build on, to be run and left as it is"


@dataclass(frozen=True)
class Question:
    """One exercise, as it is asked and graded."""

    number: int
    title: str
    points: int  # of its hidden tests
    name: str  # that an answer gives a value to
    starter: str
    shows: str | None
    checks: list[str]
    tests: str = field(repr=False)  # source of the hidden tests
    seconds: float  # of processor time
    memory: int  # MiB
    by_hand: dict | None  # "points" and "rubric" of what a person reads


@dataclass(frozen=True)
class Assignment:
    """The exercises of one chapter, as one class gets them."""

    name: str
    title: str
    group: str  # the fingerprint of the class's key, or "book"; "class" in its JSON
    seed: str = field(repr=False)  # hexadecimal: the hidden tests draw their inputs by it
    runner: str
    given: list[list[str]] = field(repr=False)  # [id, source] of the cell that the exercises need
    questions: list[Question] = field(repr=False)

    @property
    def points(self) -> int:
        """The points of its hidden tests."""
        return sum(each.points for each in self.questions)

    @property
    def points_by_hand(self) -> int:
        """The points that a person gives."""
        return sum(each.by_hand["points"] for each in self.questions if each.by_hand)

    def cells(self, answers: dict[int, str] | None = None) -> list[Cell]:
        """The code of its notebook in order, each exercise's answer in place of its starter."""
        answers = answers or {}
        cells: list[Cell] = [(None, source) for _, source in self.given]
        for each in self.questions:
            parts = [answers.get(each.number, each.starter), each.shows, *each.checks]
            cells += [(each.number, source) for source in parts if source is not None]
        return cells

    def to_json(self) -> dict:
        """Plain data: dictionaries, lists, texts and numbers."""
        data = asdict(self)
        return {"name": self.name, "title": self.title, "class": data.pop("group")} | data

    @classmethod
    def from_json(cls, data: dict) -> "Assignment":
        """The assignment that `to_json` made this of."""
        data = dict(data)
        questions = [Question(**each) for each in data.pop("questions")]
        return cls(group=data.pop("class"), questions=questions, **data)


def make_assignment(master: Master, chapter: Chapter | None, draws: Draws) -> Assignment:
    """The assignment of a master whose variants `draws` drew, on top of its chapter's code.

    Raises BookError if the chapter has no code cell of an id that the master names as given.
    """
    cells = chapter.code_cells if chapter else []
    code = {each.id: each.source for each in cells if SETUP not in tags(each)}
    for id in master.given:
        if id not in code:
            place = chapter.where if chapter else f"the book: it has no chapter {master.name}"
            raise BookError(
                f"{master.where}: 'given' names '{id}', which is no code cell of {place}; "
                "name others, or write the code under '## Given'"
            )
    sources = [*(code[id] for id in master.given), *master.own_given]
    given = [["given", "\n\n".join([GIVEN, *sources])]] if sources else []
    questions = [_question(each) for each in master.exercises]
    return Assignment(
        master.name,
        master.title,
        draws.fingerprint,
        draws.seed(master.name),
        master.runner,
        given,
        questions,
    )


def _question(exercise: Exercise) -> Question:
    return Question(
        number=exercise.number,
        title=exercise.title,
        points=exercise.points,
        name=exercise.name,
        starter=exercise.code("Starter"),
        shows=exercise.code("Shows"),
        checks=exercise.checks,
        tests=exercise.code("Hidden tests"),
        seconds=exercise.seconds,
        memory=exercise.memory,
        by_hand=exercise.by_hand,
    )
