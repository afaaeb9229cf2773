"""What instructors download: who handed in what, and when."""

import os
import sys
import tomllib
from datetime import UTC, datetime, timedelta

import pytest
from classroom import DATA
from downloads import (
    ANSWER,
    assert_is_read,
    by_student,
    find_in_zip,
    folder_of,
    reason,
    right_answers,
    zip_of,
)
from helpers import refused

from coursework.grade.intake import find_submissions, identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")


DOWNLOADS = tomllib.loads((DATA / "downloads.toml").read_text(encoding="utf-8"))
# Gradescope's.
METADATA = "submission_metadata.yml"


def blackboard_text(name):
    """Return the text that Blackboard puts next to what somebody handed in."""
    # A student wrote the last line.
    return f"""\
Name: {name}
Assignment: HW 3
Submission Field:
Name: Max (asmith)
""".encode()


BLACKBOARD_TEXTS = {
    "HW 3_jdoe_attempt_2026-02-02-15-58-23.txt": blackboard_text("Jane Doe (jdoe)"),
    "HW_3_j_doe_attempt_2026-02-02-15-58-23.txt": blackboard_text("John Doe (j_doe)"),
    "HW_3_doe_attempt_2026-02-02-15-58-23.txt": blackboard_text("Ann Doe (doe)"),
}


def files_of(name):
    """Return the files of a download with their data, by path."""
    texts = {METADATA: (DATA / METADATA).read_bytes()}
    # In this one, no text is as it should be.
    if name != "blackboard: the newest":
        texts |= BLACKBOARD_TEXTS
    files = {}
    for path in DOWNLOADS[name]:
        file_name = path.rpartition("/")[2]
        files[path] = texts.get(file_name, ANSWER)
    return files


def expected_of(name):
    """Return what is known of a download: by path the student, or the fault after a colon."""
    return {path: student for path, student in DOWNLOADS[name].items() if student}


@pytest.mark.parametrize("make", [folder_of, zip_of])
@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_source_is_recognised_and_counted(name, make, tmp_path, capsys):
    find_submissions(make(files_of(name), tmp_path / "d"))
    source = name.partition(":")[0]
    count = len(expected_of(name))
    assert capsys.readouterr().out.startswith(f"source: {source}, {count} sub")


@pytest.mark.parametrize("make", [folder_of, zip_of])
@pytest.mark.parametrize("name", DOWNLOADS)
def test_each_submission_has_its_student_or_its_fault(name, make, tmp_path):
    """Nothing is chosen that the download does not tell."""
    expected = expected_of(name)
    faults = [student for student in expected.values() if ": " in student]

    submissions = find_submissions(make(files_of(name), tmp_path / "d"))

    assert len(submissions) == len(expected)
    for submission in submissions:
        assert submission.late == ("LATE" in submission.path)
        if submission.fault:
            refusal = f"{submission.student}: {reason(submission)}"
            [fault] = [fault for fault in faults if refusal.startswith(fault)]
            faults.remove(fault)
        else:
            [path] = [path for path in expected if path.endswith(submission.path)]
            assert expected[path] == submission.student
            assert_is_read(submission)
    assert faults == []


def test_a_source_may_be_named(tmp_path, capsys):
    download = folder_of(right_answers(["a.ipynb", "b.ipynb"]), tmp_path / "d")
    submission_of = by_student(download, "moodle")
    line = "source: moodle, 2 submissions, 2 of them without a notebook to read\n"
    assert capsys.readouterr().out == line
    unknown = "names submissions, so its student is not known"
    assert reason(submission_of["a.ipynb"]).endswith(unknown)


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("nowhere", None, "no such file"),
        ("text", None, "neither a folder nor a zip"),
        ("empty.zip", None, "contains no submission; name the folder or zip of a"),
        ("empty.zip", "sakai", "SOURCE=sakai: no such source; choose from: grade"),
    ],
)
def test_a_file_that_is_no_download_is_refused(name, source, words, tmp_path):
    zip_of({}, tmp_path / "empty.zip")
    (tmp_path / "text").write_text("hello")
    with refused(words):
        find_submissions(tmp_path / name, source)


# The files of a download of no known form, and words of the refusal.
UNKNOWN = [
    (
        ["index.html", "Doe, Jane(jdoe)/a.ipynb", "Roe, Max(mroe)/a.ipynb"],
        "('index.html': neither",
    ),
    (
        ["exercises.ipynb", "exercises (1).ipynb", "Max.ipynb"],
        "'exercises (1).ipynb': copies under",
    ),
    (
        ["jdoe 2026-02-02.ipynb", "jdoe 2026-02-03.ipynb"],
        "'jdoe 2026-02-02.ipynb', 'jdoe 2026-02-03",
    ),
    (
        ["w1/a.ipynb", "w1/b.ipynb", "w2/a.ipynb", "w2/b.ipynb"],
        "('w1', 'w2': folders of several",
    ),
    (["Jane Doe - hw.ipynb"], "which half of it is the student); add"),
]


@pytest.mark.parametrize(("names", "words"), UNKNOWN)
def test_a_download_of_no_known_form_needs_a_source(names, words, tmp_path):
    download = zip_of(right_answers(names), tmp_path / "d.zip")
    with refused(str(download), "not a known form", words, "SOURCE=plain"):
        find_submissions(download)
    assert find_submissions(download, "plain")


# --- who they are, and when they handed in


ODD_NAMES = [
    "Ada",
    "ada",
    "ADA",
    "Ädä",
    "Ada\u200f",
    "\u202eadA",
    "Ad a",
    "=cmd()",
    "a,b\nc",
    "..",
    "名",
    "x" * 240,
]
SAFE = set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_ids_are_safe_and_unique(tmp_path):
    files = right_answers(f"{name}.ipynb" for name in ODD_NAMES)
    submissions = find_submissions(folder_of(files, tmp_path / "d"))
    ids = {submission.id for submission in submissions}
    assert len(ids) == len(submissions) == len(ODD_NAMES)
    for submission in submissions:
        assert set(submission.id) <= SAFE
        assert len(submission.id) < 60
        assert submission.student.isprintable()
        assert submission.path.isprintable()
        assert_is_read(submission)
    # What a person reads of an id stands before its last hyphen.
    names = [id.rpartition("-")[0] for id in ids]
    assert names.count("ada") == 6
    assert names.count("student") == 2


def test_joiners_are_part_of_a_name(tmp_path, capsys):
    files = right_answers(["\u0928\u200d\u0930.ipynb"])
    [name] = by_student(folder_of(files, tmp_path / "d"))
    assert name == "\u0928\u200d\u0930"
    assert capsys.readouterr().out == "source: plain, 1 submissions\n"


def test_a_text_that_was_handed_in_names_nobody(tmp_path):
    text = "HW 3_jdoe_attempt_2026-02-02-15-58-23_a.txt"
    files = files_of("blackboard") | {text: blackboard_text("Max (jdoe)")}
    assert "Jane Doe (Blackboard jdoe)" in by_student(zip_of(files, tmp_path / "d"))


def test_a_user_name_that_may_hold_a_stroke_is_not_guessed(tmp_path):
    name = "HW_3_doe_attempt_2026-02-02-15-58-23_a.ipynb"
    [submission] = find_in_zip({name: ANSWER}, tmp_path, "blackboard")
    assert submission.student == name
    assert "has no text file that says whose it is" in reason(submission)


def test_two_notebooks_of_a_student_are_named(tmp_path):
    names = ["jdoe/a.png", "jdoe/A.IPYNB", "jdoe/b.ipynb", "max/a.png", "max/b.IPYNB"]
    submission_of = by_student(folder_of(right_answers(names), tmp_path / "d"), "plain")
    several = "'A.IPYNB' and 'b.ipynb' were handed in; keep one notebook"
    assert reason(submission_of["jdoe"]) == several
    assert_is_read(submission_of["max"])


def from_canvas(user):
    return {f"doejane_{user}_208_a.ipynb": ANSWER}


def from_gradescope(name):
    text = f"submission_1:\n  :submitters:\n  - :name: {name}\n".encode()
    return {"e/submission_1/a.ipynb": ANSWER, f"e/{METADATA}": text}


LOOK_ALIKE = "Ann\u200b"


@pytest.mark.parametrize(
    "downloads",
    [
        [from_canvas(340934), from_canvas(340935)],
        [right_answers(["Ann.ipynb"]), right_answers([f"{LOOK_ALIKE}.ipynb"])],
        [from_gradescope("Ann"), from_gradescope(LOOK_ALIKE)],
    ],
    ids=["Canvas", "plain", "Gradescope"],
)
def test_two_students_who_look_alike_are_two(downloads, tmp_path):
    submissions = []
    for files in downloads:
        submissions += find_in_zip(files, tmp_path)
    first, second = submissions
    assert first.student.partition(" ")[0] == second.student.partition(" ")[0]
    assert identity("", first.who) != identity("", second.who)


def students_of_gradescope(changes, root):
    """Return the students of a download with some files added or replaced."""
    files = files_of("gradescope")
    top = next(iter(files)).partition("/")[0]
    for name, data in changes.items():
        files[f"{top}/{name}"] = data
    return sorted(by_student(folder_of(files, root)))


def test_metadata_from_a_student_name_nobody(tmp_path):
    own_metadata = (DATA / METADATA).read_bytes().replace(b"456", b"458")
    handed_in = {f"submission_458/{METADATA}": own_metadata}
    assert students_of_gradescope(handed_in, tmp_path / "d") == [
        "Jane Doe (s1001)",
        "Richard Roe (r@example.org); Max (s1002)",
        "submission_458",
    ]


BAD_METADATA = [
    b"- [",
    b"a: &a [*a]",
    b"\xff\xfe",
    b"a: !!python/object:os.x {}",
    b"- a\n- b",
]


@pytest.mark.parametrize("text", BAD_METADATA)
def test_metadata_that_cannot_be_read_name_nobody(text, tmp_path, capsys):
    students = students_of_gradescope({METADATA: text}, tmp_path / "d")
    assert students == ["submission_456", "submission_457", "submission_458"]
    assert f"{METADATA}: cannot be read, so students" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["exchange", "gradescope"])
def test_the_time_of_a_hand_in_is_read(source, tmp_path):
    submissions = find_in_zip(files_of(source), tmp_path)
    times = [submission.time for submission in submissions if submission.time]
    earliest = datetime(2026, 2, 2, 15, 58, 22, tzinfo=UTC)
    assert earliest < max(times) <= earliest + timedelta(seconds=2)


@pytest.mark.parametrize("source", ["blackboard", "brightspace"])
def test_a_time_of_no_zone_is_not_guessed(source, tmp_path):
    for submission in find_in_zip(files_of(source), tmp_path):
        assert submission.time is None
        assert not submission.late


@pytest.mark.parametrize("word", ["Late Submission", "Verspaetete Abgabe"])
def test_ilias_says_who_is_late(word, tmp_path):
    name = f"Doe_Jane_jdoe_1234/{word} - exercises.ipynb"
    [submission] = find_in_zip({name: ANSWER}, tmp_path)
    assert submission.student == "Doe_Jane_jdoe (ILIAS 1234)"
    assert submission.late


def test_a_student_keeps_the_id_when_graded_again(tmp_path):
    everyone = by_student(zip_of(files_of("blackboard"), tmp_path / "d"))
    before = everyone["Jane Doe (Blackboard jdoe)"]
    folder = folder_of(right_answers([before.path]), tmp_path / "again")
    [again] = find_submissions(folder / before.path)
    assert again.student == "jdoe (Blackboard jdoe)"
    assert again.make_id() == before.make_id()


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of another account")
def test_a_newer_folder_of_another_account_replaces_nothing(tmp_path):
    newer = "jdoe+hw+2027-02-02 15:58:23.948203 UTC/exercises.ipynb"
    root = folder_of(files_of("exchange") | {newer: ANSWER}, tmp_path / "d")
    assert by_student(root)["jdoe"].path == newer

    os.chown(root / newer, 65534, 65534)

    submission = by_student(root)["jdoe"]
    assert "2 accounts handed in under this name" in reason(submission)
