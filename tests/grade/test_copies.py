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

VARIETY = tomllib.loads((DATA / "variety.toml").read_text(encoding="utf-8"))
EXERCISES = VARIETY["exercise"]
NAMES = {
    "a": ["x", "t", "tensors", "items", "n", "net", "value", "obj"],
    "b": ["device", "out", "result", "dev", "r", "where"],
    "c": ["i", "k", "each", "u", "v", "p", "entry"],
    "d": ["s", "total", "acc", "w", "answer"],
}
COMMENTS = ["# my own work", "# see lecture 3", "# works!", ""]
lines_of = cache(similar.lines_of)


def texts_of(exercise):
    """Return the ways of an exercise; the first one is published."""
    return [text for _, text in exercise["answers"]]


def assignment():
    questions = []
    for number, exercise in enumerate(EXERCISES, start=1):
        published = texts_of(exercise)[0]
        question = replace(
            SMALL.exercises[0],
            number=number,
            solution=typed(published, random.Random(0)),
            starter=f"{exercise['name']} = ...",
            checks=[],
        )
        questions.append(question)
    return small(name="variety", given="import torch", exercises=questions)


def ways(rng):
    """Draw the way in which an honest student does each exercise."""
    drawn = []
    for exercise in EXERCISES:
        weights = [weight for weight, _ in exercise["answers"]]
        drawn += rng.choices(texts_of(exercise), weights)
    return drawn


def typed(way, rng):
    """Write an answer in somebody's own names, with a comment."""
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
    results = [result(who, answers) for who, answers in students.items()]
    return copies_in(assignment(), results)


EIGHT = tuple(f"copy-{n}" for n in range(8))
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_twins_are_counted_and_not_listed(seed):
    found = copies(honest(random.Random(seed), 200))
    assert found.notebooks == found.answers == []
    assert [short.exercise for short in found.short] == [1, 2, 3, 4, 5, 6]
    for short in found.short:
        assert short.answers > 150
    second = found.short[1]
    equal = f"{second.answers} answers equal another one, {second.published} of"
    assert second.text.startswith(equal)
    assert second.text.endswith("and are too short to tell")


def eight_copies(source, rng):
    return {who: notebook(source, rng) for who in EIGHT}


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_copies_in_their_own_names_are_one_group(seed):
    rng = random.Random(seed)
    students = honest(rng)
    # A notebook of ways that few take, in each exercise the last or the last but one.
    source = [rng.choice(texts_of(exercise)[-2:]) for exercise in EXERCISES]
    [group] = copies(students | eight_copies(source, rng)).notebooks
    assert group.submissions == EIGHT
    assert group.text.startswith("6 of 6 answers are the same once names")


@pytest.mark.parametrize("seed", SEEDS)
def test_four_pairs_who_differ_in_an_answer_are_four_groups(seed):
    rng = random.Random(seed)
    students = honest(rng)
    pairs = []
    for n in range(4):
        source = notebook(ways(rng), rng)
        # In each pair the second wrote the first answer in a way of their own.
        first = f"def device_kind(d):\n    kinds = {{'cpu': 'host', {n}: n}}\n    return kinds[d]"
        copy = [first, *source[1:]]
        students |= {f"copy-{n}-a": source, f"copy-{n}-b": copy}
        pairs.append((f"copy-{n}-a", f"copy-{n}-b"))
    found = copies(students)
    assert [group.submissions for group in found.notebooks] == pairs
    for group in found.notebooks:
        assert group.exercises == (2, 3, 4, 5, 6)
        assert group.text.startswith("5 of 6 answers are the same")


@pytest.mark.parametrize("seed", SEEDS)
def test_good_students_who_write_alike_are_no_copies(seed):
    rng = random.Random(seed)
    students = honest(rng, 120)
    for n in range(80):
        students[f"good-{n}"] = notebook(good_ways(rng), rng)
    found = copies(students)
    assert found.notebooks == found.answers == []


def good_ways(rng):
    """Draw the ways of a student who leans far towards the same ones as others."""
    drawn = []
    for exercise, way in zip(EXERCISES, ways(rng), strict=True):
        texts = texts_of(exercise)
        best = texts[1] if exercise["name"] == "newest" else texts[0]
        drawn.append(best if rng.random() < 0.8 else way)
    return drawn


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_solutions_are_listed_as_such(seed):
    rng = random.Random(seed)
    published = [texts_of(exercise)[0] for exercise in EXERCISES]
    [group] = copies(honest(rng) | eight_copies(published, rng)).notebooks
    assert {*group.submissions} >= {*EIGHT, PUBLISHED}


@pytest.mark.parametrize("seed", SEEDS)
def test_published_solutions_without_comments_are_found(seed):
    students = honest(random.Random(seed), 199)
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


def without_comments(text):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return "\n".join(lines)


def large_class(rng):
    students = honest(rng, 1000)
    for who in EIGHT:
        students[who] = notebook(ways(rng), random.Random(1))
    return students


def test_the_order_of_submissions_changes_nothing():
    rng = random.Random(7)
    students = large_class(rng)
    shuffled = list(students.items())
    rng.shuffle(shuffled)
    start = perf_counter()
    in_order = copies(students)
    # A thousand take two seconds, and longer on a busy machine.
    assert perf_counter() - start < 60
    assert copies(dict(shuffled)) == in_order


def answers_with(own):
    """Return right answers to all exercises, each with lines of one's own."""
    answers = {}
    for number in (1, 2, 3):
        answers[number] = f"{HERE[number]}\n{own.format(n=number)}"
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
    assert f"{group}: 3 of 3 answers are the same once" in review
    # They stand side by side.
    assert review.count("note_2 = &#39;as Ann typed it, 2&#39;") == 2
    assert "exercise 1: 2 answers equal another one and are too short to tell" in review
    assert "tom, tim" not in review
    assert "tim, tom" not in review


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
