"""Copies among two hundred honest notebooks are listed as groups, and honest twins are not.

The class writes answers of `data/variety.toml`: for each exercise five ways or so, most of them
short, in names that every student chooses. So most answers have many twins.
"""

import random
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter

import pytest
from classroom import ANSWERS, DATA, SMALL, small

from coursework.grade import similar
from coursework.grade.copies import PUBLISHED, ShortAnswers, copies_in
from coursework.grade.results import Grade


@dataclass(frozen=True)
class Exercise:
    name: str
    # How often students choose each way, and its text; the first way is published.
    answers: list[tuple[int, str]]

    @property
    def weights(self):
        return [weight for weight, _ in self.answers]

    @property
    def ways(self):
        return [text for _, text in self.answers]

    @property
    def published(self):
        return self.ways[0]


VARIETY = tomllib.loads((DATA / "variety.toml").read_text(encoding="utf-8"))
EXERCISES = [Exercise(**entry) for entry in VARIETY["exercise"]]
NAMES = {
    "a": ["x", "t", "tensors", "items", "n", "net", "value", "obj"],
    "b": ["device", "out", "result", "dev", "r", "where"],
    "c": ["i", "k", "each", "u", "v", "p", "entry"],
    "d": ["s", "total", "acc", "w", "answer"],
}
COMMENTS = ["# my own work", "# see lecture 3", "# works!", ""]
lines_of = cache(similar.lines_of)


def assignment():
    """Return the assignment whose exercises are those of the class."""
    questions = []
    for number, exercise in enumerate(EXERCISES, start=1):
        question = replace(
            SMALL.exercises[0],
            number=number,
            solution=typed(exercise.published, random.Random(0)),
            starter=f"{exercise.name} = ...",
            checks=[],
        )
        questions.append(question)
    return small(name="variety", given="import torch", exercises=questions)


def draw_ways(rng):
    """Draw the way in which an honest student does each exercise."""
    ways = []
    for exercise in EXERCISES:
        ways += rng.choices(exercise.ways, exercise.weights)
    return ways


def typed(way, rng):
    """Write an answer in somebody's own names, with a comment."""
    names = {place: rng.choice(choice) for place, choice in NAMES.items()}
    comment = rng.choice(COMMENTS)
    return f"{comment}\n{way.format(**names)}".strip()


def answers_in(ways, rng):
    return [typed(way, rng) for way in ways]


def grade_of(student, answers):
    numbered = dict(enumerate(answers, start=1))
    lines = {number: lines_of(answer) for number, answer in numbered.items()}
    return Grade(student, student, answers=numbered, lines=lines)


def honest_students(rng, count=192):
    """Return the answers of honest students by name."""
    students = {}
    for n in range(count):
        students[f"honest-{n}"] = answers_in(draw_ways(rng), rng)
    return students


def copies(students):
    grades = [grade_of(student, answers) for student, answers in students.items()]
    return copies_in(assignment(), grades)


EIGHT = tuple(f"copy-{n}" for n in range(8))
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_twins_are_counted_and_not_listed(seed):
    found = copies(honest_students(random.Random(seed), 200))

    assert found.notebooks == found.answers == []
    assert [short.exercise for short in found.short] == [1, 2, 3, 4, 5, 6]
    for short in found.short:
        assert short.answers > 150
    second = found.short[1]
    equal = f"{second.answers} answers equal another one, {second.published} of"
    assert second.text.startswith(equal)
    assert second.text.endswith("and are too short to tell")


def eight_copies(ways, rng):
    return {student: answers_in(ways, rng) for student in EIGHT}


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_copies_in_their_own_names_are_one_group(seed):
    rng = random.Random(seed)
    students = honest_students(rng)
    # Few take these ways, in each exercise the last or the last but one.
    ways = [rng.choice(exercise.ways[-2:]) for exercise in EXERCISES]
    students |= eight_copies(ways, rng)

    [group] = copies(students).notebooks

    assert group.submissions == EIGHT
    assert group.text.startswith("6 of 6 answers are the same when names")


@pytest.mark.parametrize("seed", SEEDS)
def test_four_pairs_who_differ_in_an_answer_are_four_groups(seed):
    rng = random.Random(seed)
    students = honest_students(rng)
    pairs = []
    for n in range(4):
        source = answers_in(draw_ways(rng), rng)
        # In each pair the second wrote the first answer in a way of their own.
        own_answer = f"""\
def device_kind(d):
    kinds = {{'cpu': 'host', {n}: n}}
    return kinds[d]"""
        pair = (f"copy-{n}-a", f"copy-{n}-b")
        students[pair[0]] = source
        students[pair[1]] = [own_answer, *source[1:]]
        pairs.append(pair)

    groups = copies(students).notebooks

    assert [group.submissions for group in groups] == pairs
    for group in groups:
        assert group.exercises == (2, 3, 4, 5, 6)
        assert group.text.startswith("5 of 6 answers are the same")


def draw_good_ways(rng):
    """Draw the ways of a student who leans far towards the same ones as others."""
    good_ways = []
    for exercise, way in zip(EXERCISES, draw_ways(rng), strict=True):
        if rng.random() < 0.8:
            way = exercise.published
            if exercise.name == "newest":
                way = exercise.ways[1]
        good_ways.append(way)
    return good_ways


@pytest.mark.parametrize("seed", SEEDS)
def test_good_students_who_write_alike_are_no_copies(seed):
    rng = random.Random(seed)
    students = honest_students(rng, 120)
    for n in range(80):
        students[f"good-{n}"] = answers_in(draw_good_ways(rng), rng)
    found = copies(students)
    assert found.notebooks == found.answers == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_solutions_are_listed_as_such(seed):
    rng = random.Random(seed)
    published = [exercise.published for exercise in EXERCISES]
    students = honest_students(rng) | eight_copies(published, rng)
    [group] = copies(students).notebooks
    assert set(group.submissions) >= {*EIGHT, PUBLISHED}


def without_comments(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", SEEDS)
def test_published_solutions_without_comments_are_found(seed):
    students = honest_students(random.Random(seed), 199)
    solutions = [question.solution for question in assignment().exercises]
    students["ann"] = [without_comments(text) for text in solutions]
    [group] = copies(students).notebooks
    assert group.submissions == ("ann", PUBLISHED)


AND_PUBLISHED = "3 answers equal another one, 1 of them the published solution, and are"


@pytest.mark.parametrize(
    ("answers", "published", "text"),
    [
        (1, 0, "1 answer equals another one and is"),
        (1, 1, "1 answer equals the published solution and is"),
        (3, 0, "3 answers equal another one and are"),
        (3, 1, AND_PUBLISHED),
        (3, 3, "3 answers equal the published solution and are"),
    ],
)
def test_short_answers_are_told_in_a_sentence(answers, published, text):
    assert ShortAnswers(1, answers, published).text == f"{text} too short to tell"


def test_the_order_of_submissions_changes_nothing():
    rng = random.Random(7)
    students = honest_students(rng, 1000)
    for student in EIGHT:
        students[student] = answers_in(draw_ways(rng), random.Random(1))
    shuffled = list(students.items())
    rng.shuffle(shuffled)

    start = perf_counter()
    in_order = copies(students)
    seconds = perf_counter() - start

    assert copies(dict(shuffled)) == in_order
    # A thousand take two seconds, and longer on a busy machine.
    assert seconds < 60


def answers_with(own_lines):
    """Return right answers to all exercises, each with lines of one's own."""
    answers = {}
    for number in (1, 2, 3):
        answers[number] = f"{ANSWERS[number]}\n{own_lines.format(n=number)}"
    return answers


def test_the_review_shows_notebooks_that_agree(grade, out):
    students = {}
    for k in range(20):
        students[f"s{k}"] = answers_with(f"kept_{{n}} = {k}")
    short = {1: "def double(x):\n    return 2 * x"}
    students |= {"tom": short, "tim": short}
    copied = answers_with("note_{n} = 'as Ann typed it, {n}'\nmore_{n} = {n}")
    students |= {"Ann": copied, "Bob": copied}

    grade(students)

    review = (out / "review.html").read_text(encoding="utf-8")
    group = "Ann, Bob: small, exercises 1, 2, 3"
    assert f"{group}: 3 of 3 answers are the same when" in review
    # They stand side by side.
    assert review.count("note_2 = &#39;as Ann typed it, 2&#39;") == 2
    assert "exercise 1: 2 answers equal another one and are too short to tell" in review
    assert "tom, tim" not in review
    assert "tim, tom" not in review
