"""Results are whole or not there, and a key changes with what its exercise follows from alone."""

import copy
import json
import multiprocessing

import pytest
from classroom import RIGHT, SMALL, edition, small
from helpers import refused as is_refused

from tools.grade import store
from tools.grade.splice import splice
from tools.grade.store import Store, code_digest, file_name, keys_of


def keys(assignment=SMALL, answers=RIGHT):
    return keys_of(assignment, splice(edition(answers, assignment), assignment).cells)


def changed(assignment, answers=RIGHT):
    """The exercises whose key is another one."""
    before, after = keys(), keys(assignment, answers)
    return {int(number) for number in before if before[number] != after[number]}


def with_question(number, **changes):
    assignment = small()
    assignment["questions"][number - 1] |= changes
    return assignment


def test_keys_repeat():
    assert keys() == keys(copy.deepcopy(SMALL)) and len(set(keys().values())) == 3


def test_changed_test_touches_its_exercise_alone():
    assert changed(with_question(2, tests="def test_a(student, rng):\n    'A.'")) == {2}


@pytest.mark.parametrize(
    "assignment",
    [
        small(seed="0100"),
        small(runner="cpu"),
        small(given=[["imports", "import torch"]]),
        with_question(1, seconds=3),
        with_question(1, memory=99),
    ],
)
def test_what_all_cells_run_under_touches_all(assignment):
    assert changed(assignment) == {1, 2, 3}


def test_changed_answer_touches_the_submission():
    assert changed(SMALL, RIGHT | {2: "total = sum"}) == {1, 2, 3}


def test_changed_grader_or_pins_touch_all(tmp_path):
    for name, text in {"requirements.txt": "torch==1", "tools/grade/judge.py": "x"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "requirements-no-deps.txt").write_text("")
    found = [code_digest.__wrapped__("cpu", tmp_path)]
    (tmp_path / "requirements.txt").write_text("torch==2")
    found.append(code_digest.__wrapped__("cpu", tmp_path))
    (tmp_path / "tools/grade/judge.py").write_text("y")
    found.append(code_digest.__wrapped__("cpu", tmp_path))
    (tmp_path / "README.md").write_text("no part of it")
    assert len(set(found)) == 3 and code_digest.__wrapped__("cpu", tmp_path) == found[-1]


def test_all_that_decides_a_result_is_there():
    assert all((store.ROOT / name).exists() for name in [*store.PINS, *store.CODE, store.SIMULATOR])


def test_result_comes_back_and_a_half_one_does_not(tmp_path):
    kept = Store(tmp_path / "out")
    kept.save({"submission": "jane", "points": 1})
    assert kept.load("jane") == {"submission": "jane", "points": 1}
    kept.path("jane").write_text('{"submission": "ja')
    assert kept.load("jane") is None and kept.load("nobody") is None


def test_what_did_not_change_is_not_written(tmp_path):
    kept = Store(tmp_path / "out")
    kept.save({"submission": "jane"})
    before = kept.path("jane").stat().st_mtime_ns
    kept.save({"submission": "jane"})
    assert kept.path("jane").stat().st_mtime_ns == before


def test_what_belongs_to_nobody_goes(tmp_path):
    kept = Store(tmp_path / "out")
    for name in ("jane", "joe"):
        kept.save({"submission": name})
        kept.write(f"feedback/{name}.html", "x")
    kept.write("grades.csv", "x")
    kept.keep_only(["joe"])
    files = sorted(path.name for path in kept.folder.rglob("*") if path.is_file())
    assert files == ["grades.csv", "joe.html", "joe.json"]


def hold(folder, held, leave):
    with Store(folder).one_at_a_time():
        held.set()
        leave.wait()


def test_one_grading_at_a_time(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    held, leave = spawn.Event(), spawn.Event()
    other = spawn.Process(target=hold, args=(tmp_path / "out", held, leave))
    other.start()
    try:
        assert held.wait(60)
        with is_refused("out: another 'make grade' writes there"):
            with Store(tmp_path / "out").one_at_a_time():
                pass
    finally:
        leave.set()
        other.join()
    with Store(tmp_path / "out").one_at_a_time():
        pass


def test_half_written_files_of_a_killed_grading_go(tmp_path):
    kept = Store(tmp_path / "out")
    kept.save({"submission": "jane"})
    half = kept.path("jane").with_name("joe.json.part")
    half.write_text("{")
    with kept.one_at_a_time():
        assert not half.exists() and kept.load("jane")


def test_names_of_files_are_safe_and_differ():
    odd = ["../../etc", "a/b", "a b", "A B", "", "=cmd()", "x" * 999, "jane-0123456789ab", "\ud800"]
    names = [file_name(each) for each in odd]
    assert len(set(names)) == len(odd) and "jane-0123456789ab" in names
    assert all(len(name) < 80 and "/" not in name and name[0] not in ".-" for name in names)


def test_results_are_plain_text(tmp_path):
    kept = Store(tmp_path / "out")
    kept.save({"submission": "jane", "shown": "\ud800é"})
    assert kept.path("jane").read_bytes().isascii() and json.loads(kept.path("jane").read_text())
