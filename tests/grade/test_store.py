"""Results are whole or not there, and a key changes with what they follow from."""

import copy

import pytest
from classroom import RIGHT, SMALL, edition, small
from helpers import refused as is_refused

from tools.grade import store
from tools.grade.splice import splice
from tools.grade.store import Store, code_digest, key_of


def with_question(number, **changes):
    assignment = small()
    assignment["questions"][number - 1] |= changes
    return assignment


@pytest.mark.parametrize(
    ("assignment", "answers", "touched"),
    [
        (copy.deepcopy(SMALL), RIGHT, False),
        (small(due="2026-12-01T12:00:00+01:00"), RIGHT, False),
        (with_question(3, by_hand={"points": 3, "rubric": "x"}), RIGHT, False),
        (with_question(2, tests="def test_a(student, rng):\n    'A.'"), RIGHT, True),
        (small(seed="0100"), RIGHT, True),
        (small(runner="cpu"), RIGHT, True),
        (small(given=[["imports", "import torch"]]), RIGHT, True),
        (with_question(1, seconds=3), RIGHT, True),
        (with_question(1, memory=99), RIGHT, True),
        (SMALL, RIGHT | {2: "total = sum"}, True),
    ],
)
def test_a_key_changes_with_what_a_result_follows_from(assignment, answers, touched):
    def key(assignment, answers):
        return key_of(assignment, splice(edition(answers, assignment), assignment).cells)

    assert (key(assignment, answers) != key(SMALL, RIGHT)) == touched


def test_changed_grader_or_pins_touch_all(tmp_path):
    assert all((store.ROOT / name).exists() for name in [*store.PINS, *store.CODE, store.SIMULATOR])
    found = []
    for name, text in [
        *(("requirements-no-deps.txt", ""), ("requirements.txt", "torch==1")),
        *(
            ("tools/grade/judge.py", "x"),
            ("requirements.txt", "torch==2"),
            ("README.md", "no part"),
        ),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        if (tmp_path / "requirements.txt").exists() and (tmp_path / "tools").exists():
            found.append(code_digest.__wrapped__("cpu", tmp_path))
    assert len(set(found)) == 2 and found[1] == found[2]


def result(submission, **more):
    made = {"submission": submission, "assignment": None, "answers": {}, "questions": {}}
    return made | more


def test_result_comes_back_and_a_half_one_does_not(tmp_path):
    kept = Store(tmp_path / "out")
    jane = result("jane", shown="\ud800é")
    kept.save(jane)
    half = kept.files(jane)[0].with_name("joe.json")
    half.write_text(kept.files(jane)[0].read_text()[:-9])
    half.with_suffix(".json.part").write_text("{")
    before = kept.files(jane)[0].stat().st_mtime_ns
    again = Store(tmp_path / "out")
    with again.one_at_a_time():
        assert again.results == {("jane", None): jane}
        assert not list(again.folder.rglob("*.part"))
        again.save(jane)
    assert again.files(jane)[0].stat().st_mtime_ns == before  # what did not change is not written


def test_one_grading_at_a_time(tmp_path):
    with (
        Store(tmp_path / "out").one_at_a_time(),
        is_refused("out: another 'make grade' writes there"),
        Store(tmp_path / "out").one_at_a_time(),
    ):
        pass
    with Store(tmp_path / "out").one_at_a_time():
        pass
