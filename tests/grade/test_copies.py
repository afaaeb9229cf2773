"""Copies among two hundred honest notebooks are listed as groups, and honest twins are not.

The class writes answers of `data/variety.toml`: for each exercise five ways or so, most of them
short, in names that every student chooses. So most answers have many twins.
"""

import random
import tomllib
from dataclasses import replace
from functools import cache
from time import perf_counter

import pytest
from classroom import DATA, HERE, SMALL, small

from coursework.grade import similar
from coursework.grade.copies import PUBLISHED, ShortAnswers, copies_in
from coursework.grade.results import Grade

EXERCISES = tomllib.loads((DATA / "variety.toml").read_text(encoding="utf-8"))[
    "exercise"
]
NAMES = {
    "a": ["x", "t", "tensors", "items", "n", "net", "value", "obj"],
    "b": ["device", "out", "result", "dev", "r", "where"],
    "c": ["i", "k", "each", "u", "v", "p", "entry"],
    "d": ["s", "total", "acc", "w", "answer"],
}
COMMENTS = ["# my own work", "# see lecture 3", "# works!", ""]
lines_of = cache(similar.lines_of)


def assignment(exercises=EXERCISES):
    questions = [
        replace(
            SMALL.questions[0],
            number=number,
            solution=typed(published, random.Random(0)),
            starter=f"{exercise['name']} = ...",
            checks=[],
        )
        for number, exercise in enumerate(exercises, start=1)
        for _, published in exercise["answers"][:1]
    ]
    return small(name="variety", given="import torch", questions=questions)


def ways(rng, exercises=EXERCISES):
    """The way in which an honest student does each exercise."""
    drawn = []
    for exercise in exercises:
        weights, texts = zip(*exercise["answers"], strict=True)
        drawn += rng.choices(texts, weights)
    return drawn


def typed(way, rng):
    """An answer in somebody's own names, with a comment."""
    names = {place: rng.choice(choice) for place, choice in NAMES.items()}
    return f"{rng.choice(COMMENTS)}\n{way.format(**names)}".strip()


def notebook(ways, rng):
    return [typed(way, rng) for way in ways]


def result(submission, answers):
    numbered = dict(enumerate(answers, start=1))
    lines = {number: lines_of(answer) for number, answer in numbered.items()}
    return Grade(submission, submission, answers=numbered, lines=lines)


def honest(rng, count=192):
    return {f"honest-{n}": notebook(ways(rng), rng) for n in range(count)}


def copies(students):
    return copies_in(assignment(), [result(*student) for student in students.items()])


def groups_of(students):
    return [group.submissions for group in copies(students).groups]


EIGHT = tuple(f"copy-{n}" for n in range(8))
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_twins_are_counted_and_not_listed(seed):
    found = copies(honest(random.Random(seed), 200))
    assert found.groups == []
    assert [short.exercise for short in found.short] == [1, 2, 3, 4, 5, 6]
    assert all(short.answers > 150 for short in found.short)
    words = f"{found.short[1].answers} answers equal another one, {found.short[1].published} of"
    assert found.short[1].text.startswith(words)
    assert found.short[1].text.endswith("and are too short to tell")


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_copies_in_names_of_their_own_are_one_group(seed):
    rng = random.Random(seed)
    students = honest(rng)
    # A notebook of ways that few take, in each exercise the last or the last but one.
    source = [rng.choice(exercise["answers"][-2:])[1] for exercise in EXERCISES]
    found = copies(students | {who: notebook(source, rng) for who in EIGHT})
    assert [group.submissions for group in found.groups] == [EIGHT]
    assert found.groups[0].text.startswith("6 of 6 answers are the same once names")


@pytest.mark.parametrize("seed", SEEDS)
def test_four_pairs_are_four_groups_though_one_answer_of_each_copy_is_of_its_own(seed):
    rng = random.Random(seed)
    students, pairs = honest(rng), []
    for n in range(4):
        source = notebook(ways(rng), rng)
        # In each pair the second wrote the first answer in a way of their own.
        first = f"def device_kind(d):\n    kinds = {{'cpu': 'host', {n}: n}}\n    return kinds[d]"
        copy = [first, *source[1:]]
        students |= {f"copy-{n}-a": source, f"copy-{n}-b": copy}
        pairs.append((f"copy-{n}-a", f"copy-{n}-b"))
    found = copies(students)
    assert [group.submissions for group in found.groups] == pairs
    for group in found.groups:
        assert group.exercises == (2, 3, 4, 5, 6)
        assert group.text.startswith("5 of 6 answers are the same")


@pytest.mark.parametrize("seed", SEEDS)
def test_good_students_who_write_alike_are_no_copies(seed):
    rng = random.Random(seed)
    best = [
        exercise["answers"][1 if exercise["name"] == "newest" else 0][1]
        for exercise in EXERCISES
    ]
    students = honest(rng, 120)
    for n in range(80):  # who lean far towards the same ways
        own = [
            good if rng.random() < 0.8 else way
            for good, way in zip(best, ways(rng), strict=True)
        ]
        students[f"good-{n}"] = notebook(own, rng)
    assert groups_of(students) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_solutions_handed_in_are_listed_as_such(seed):
    rng = random.Random(seed)
    published = [exercise["answers"][0][1] for exercise in EXERCISES]
    [group] = copies(
        honest(rng) | {who: notebook(published, rng) for who in EIGHT}
    ).groups
    assert {*group.submissions} >= {*EIGHT, PUBLISHED}
    [group] = copies(honest(rng, 199) | {"ann": _stripped(assignment())}).groups
    assert group.submissions == ("ann", PUBLISHED)


@pytest.mark.parametrize(
    ("answers", "published", "text"),
    [
        (1, 0, "1 answer equals another one and is"),
        (1, 1, "1 answer equals the published solution and is"),
        (3, 0, "3 answers equal another one and are"),
        (
            3,
            1,
            "3 answers equal another one, 1 of them the published solution, and are",
        ),
        (3, 3, "3 answers equal the published solution and are"),
    ],
)
def test_short_answers_are_told_in_a_sentence(answers, published, text):
    assert ShortAnswers(1, answers, published).text == f"{text} too short to tell"


def _stripped(assignment):
    """The published solutions as they are, comments taken out."""
    texts = [question.solution for question in assignment.questions]
    return [
        "\n".join(line for line in text.splitlines() if line[:1] != "#")
        for text in texts
    ]


def test_the_order_of_submissions_changes_nothing_and_a_thousand_take_seconds():
    rng = random.Random(7)
    students = honest(rng, 1000) | {
        who: notebook(ways(rng), random.Random(1)) for who in EIGHT
    }
    shuffled = list(students.items())
    rng.shuffle(shuffled)
    start = perf_counter()
    first = copies(students)
    assert perf_counter() - start < 60  # on a busy machine; it takes two
    assert copies(dict(shuffled)) == first


def test_the_review_shows_notebooks_that_agree_side_by_side_and_counts_the_short(
    grade, out
):
    numbers = [1, 2, 3]
    own = {
        n: f"{HERE[n]}\nnote_{n} = 'as Ann typed it, {n}'\nmore_{n} = {n}"
        for n in numbers
    }
    others = {
        f"s{k}": {n: f"{HERE[n]}\nkept_{n} = {k}" for n in numbers} for k in range(20)
    }
    twins = {who: {1: "def double(x):\n    return 2 * x"} for who in ("tom", "tim")}
    grade(others | twins | {"Ann": own, "Bob": own})
    review = (out / "review.html").read_text(encoding="utf-8")
    assert (
        "Ann, Bob: small, exercises 1, 2, 3: 3 of 3 answers are the same once" in review
    )
    assert review.count("note_2 = &#39;as Ann typed it, 2&#39;") == 2
    assert "exercise 1: 2 answers equal another one and are too short to tell" in review
    assert "tom, tim" not in review and "tim, tom" not in review


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
