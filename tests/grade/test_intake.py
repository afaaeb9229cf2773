"""What instructors download, with everything that may be wrong with it. The names are invented."""

import io
import json
import os
import socket
import stat
import struct
import sys
import zipfile
from datetime import UTC, datetime

import pytest
from helpers import refused

from tools.grade.intake import Refused, find_submissions, identity, read_submission

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}


def notebook(**changes):
    return json.dumps(NOTEBOOK | changes).encode()


ANSWER = notebook(
    cells=[{"cell_type": "code", "id": "answer-1", "metadata": {}, "source": ["a = 1\n", "a"]}]
)
EXPORT, ZONE = "assignment_123_export", "-02-02 15:58:23.948203 UTC"
KEEP_ONE = "'a.ipynb' and 'b.ipynb' were handed in; keep one notebook"
NONE = "no notebook, which ends in .ipynb"
# By source, and what of it, the paths, and what each is: its student; after a colon, why they have
# none; or nothing, where another file counts or none is a row.
DOWNLOADS = {
    "canvas": {  # attachments are numbered as they are uploaded
        "doejane_340934_208490284_computing-devices.ipynb": "doejane (Canvas 340934)",
        "roerichard_LATE_340935_208490290_hw-2.ipynb": "roerichard (Canvas 340935)",
        "öztürkayşe_340936_208490299_Copy of hw (1).ipynb": "öztürkayşe (Canvas 340936)",
        "group7_340937_208490300_x.ipynb": "group7 (Canvas 340937)",
    },
    "canvas: the newest": {
        **dict.fromkeys(["doe_1_20_hw.ipynb", "doe_1_21_hw-1.ipynb", "doe_1_9_hw-3.ipynb"]),
        **{"doe_1_22_hw-2.ipynb": "doe (Canvas 1)", "doe_1_text.html": None},
    },
    "canvas: two": {
        "d_1_2_a.ipynb": "d (Canvas 1): 'd_1_2_a.ipynb' and 'd_1_3_b.ipynb' were handed in",
        "d_1_3_b.ipynb": None,
        "d_2_3_c.csv": f"d (Canvas 2): 'd_2_3_c.csv': {NONE}",
        "poe_LATE_7_text.html": f"poe (Canvas 7): 'poe_LATE_7_text.html': {NONE}",
    },
    "canvas: other names": {  # 'x_340935' is not the student 340935
        "d_1_2_a.ipynb": "d (Canvas 1)",
        "d_2_3_a.ipynb": "d (Canvas 2)",
        "x_340935_340999_2084_a.ipynb": "x_340935_340999_2084_a.ipynb: 'x_340935_340999_2084_a.ip",
    },
    "moodle": {
        "Jane Doe_123456_assignsubmission_file/computing-devices.ipynb": "Jane Doe (Moodle 123456)",
        "O'Roe, R_123457_assignsubmission_file_/work/a.ipynb": "O'Roe, R (Moodle 123457)",
        "王小明_123458_assignsubmission_file_my_work_1.ipynb": "王小明 (Moodle 123458)",
        "Participant_123459_assignsubmission_file/a.ipynb": "Participant (Moodle 123459)",
    },
    "exchange": {
        f"jdoe+hw+2026{ZONE}+kX9_a-b=/exercises.ipynb": "jdoe",
        f"jdoe+hw+2026{ZONE}+kX9_a-b=/timestamp.txt": None,
        f"r+roe+hw+2026{ZONE}/computing-devices.ipynb": "r+roe",
    },
    "exchange: the newest": {
        f"jdoe+hw+2026{ZONE}/a.ipynb": None,
        f"jdoe+hw+2027{ZONE}/b.ipynb": "jdoe",
        f"jdoe+hw+2025{ZONE}/c.ipynb": None,
    },
    "nbgrader": {
        "submitted/jdoe/hw1/computing-devices.ipynb": "jdoe",
        "submitted/jdoe/hw2/computing-devices.ipynb": "jdoe",
        "submitted/rroe/hw1/a.ipynb": f"rroe: {KEEP_ONE}",
        "submitted/rroe/hw1/b.ipynb": None,
    },
    "plain": {
        "jdoe.ipynb": "jdoe",
        "Richard Roe/whatever.ipynb": "Richard Roe",
        "max/a.ipynb": f"max: {KEEP_ONE}",
        "max/b/b.ipynb": None,
        "Eve; doe (Canvas 340934).ipynb": "Eve, doe [Canvas 340934]",
        "d_1_2_a.ipynb": "d_1_2_a",  # the most decide
    },
    "plain: what lies beside a notebook": {
        "jdoe/hw.ipynb": "jdoe",
        **dict.fromkeys(["jdoe/a.png", "jdoe/__MACOSX/._hw.ipynb", "jdoe/.DS_Store"]),
        "rroe/a.png": f"rroe: 'a.png' and 'data.csv': {NONE}",
        **dict.fromkeys(["rroe/data.csv", "rroe/.ipynb_checkpoints/hw.ipynb", "__MACOSX/._j"]),
    },
    "plain: a folder of folders": {"hw1/jdoe/a.ipynb": "jdoe", "hw1/rroe/a.ipynb": "rroe"},
    "gradescope": {
        f"{EXPORT}/submission_metadata.yml": None,
        f"{EXPORT}/submission_456/a.ipynb": "Jane Doe (s1001)",
        f"{EXPORT}/submission_457/a.ipynb": "Richard Roe (r@example.org); Max (s1002)",
        f"{EXPORT}/submission_458/a.ipynb": "submission_458",
    },
}
METADATA = b"""\
---
submission_456:
  :submitters:
  - :name: Jane Doe
    :sid: s1001
    :email: jane@example.org
  :created_at: 2026-02-02 15:58:23.948203000 Z
  :score: !ruby/object:BigDecimal 18:0.0
submission_457:
  :submitters:
  - :name: Richard Roe
    :sid:
    :email: r@example.org
  - :name: Max
    :sid: s1002
    :email: m@example.org
"""


def files_of(name):
    texts = {"submission_metadata.yml": METADATA}
    return {path: texts.get(path.rpartition("/")[2], ANSWER) for path in DOWNLOADS[name]}


def folder_of(files, root):
    """A folder with these files; names alone hold an answer."""
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name] if isinstance(files, dict) else ANSWER)
    return root


def zip_of(files, path=None, method=zipfile.ZIP_DEFLATED):
    """A zip of names or ZipInfos with their data: written to `path`, or its bytes."""
    made = path or io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path or made.getvalue()


def member(name, mode=stat.S_IFREG | 0o644):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def reason(submission):
    """Why it is refused, when it is listed or when it is read: one line that shows as it reads."""
    with pytest.raises(Refused) as refusal:
        read_submission(submission.read())
    text = str(refusal.value)
    assert text.isprintable(), text
    return text


@pytest.mark.parametrize("make", ["folder_of", "zip_of"])
@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_recognised_and_nothing_chosen_that_it_does_not_tell(
    name, make, tmp_path, capsys
):
    found = find_submissions(globals()[make](files_of(name), tmp_path / "d"))
    assert capsys.readouterr().out.startswith(f"source: {name.split(':')[0]}, {len(found)} sub")
    told = [student for student in DOWNLOADS[name].values() if student]
    assert len(found) == len(told)
    for submission in found:
        assert submission.late == ("LATE" in submission.path)
        if submission.fault:
            said = f"{submission.student}: {reason(submission)}"
            assert any(said.startswith(words) for words in told if ": " in words), said
        else:
            [path] = [path for path in DOWNLOADS[name] if path.endswith(submission.path)]
            assert DOWNLOADS[name][path] == submission.student
            [cell] = read_submission(submission.read()).cells
            assert (cell.id, cell.source) == ("answer-1", "a = 1\na")


def test_ids_are_safe_and_unique_whatever_students_are_called(tmp_path):
    names = ["Ada", "ada", "Ädä", "Ada\u200f", "Ad a", "=cmd()", "a,b\nc", "..", "\u202eadA"]
    names += ["名", "x" * 240]
    found = find_submissions(folder_of([f"{name}.ipynb" for name in names], tmp_path / "d"))
    assert len({submission.id for submission in found}) == len(names) == len(found)
    for submission in found:
        assert set(submission.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(submission.id) < 60 and read_submission(submission.read())
        assert submission.student.isprintable() and submission.path.isprintable()


def test_a_source_is_named_over_what_is_found(tmp_path, capsys):
    found = find_submissions(folder_of(["a.ipynb", "b.ipynb"], tmp_path / "d"), "moodle")
    line = "source: moodle, 2 submissions, 2 of them without a notebook to read\n"
    assert capsys.readouterr().out == line
    assert reason(found[0]).endswith(".ipynb' is not named as moodle names what is handed in")


def test_what_is_no_download_is_an_error_in_one_line(tmp_path):
    zip_of({}, tmp_path / "empty.zip")
    (tmp_path / "text").write_text("hello")
    for name, source, words in [
        ("nowhere", None, "no such file"),
        ("text", None, "neither a folder nor a zip"),
        ("empty.zip", None, "holds no submission; name the folder or zip of a"),
        ("empty.zip", "blackboard", "SOURCE=blackboard: no such source; choose from: grade"),
    ]:
        with refused(words):
            find_submissions(tmp_path / name, source)


# --- who they are, and when they handed in

MINE = b"submission_458:\n  :submitters:\n  - :name: Jane Doe\n    :sid: s1001\n"
UNREADABLE = [b"- [", b"a: &a [*a]", b"\xff\xfe", b"a: !!python/object:os.x {}", b"- a\n- b"]


def students_of(changes, tmp_path):
    files = files_of("gradescope") | {f"{EXPORT}/{name}": data for name, data in changes.items()}
    return sorted(one.student for one in find_submissions(folder_of(files, tmp_path / "d")))


def test_metadata_of_gradescope_name_students_if_gradescope_wrote_them(tmp_path, capsys):
    known = ["Jane Doe (s1001)", "Richard Roe (r@example.org); Max (s1002)", "submission_458"]
    assert students_of({"submission_458/submission_metadata.yml": MINE}, tmp_path) == known
    nobody = [f"submission_{n}" for n in (456, 457, 458)]
    for text in UNREADABLE:
        assert students_of({"submission_metadata.yml": text}, tmp_path) == nobody
        assert "submission_metadata.yml: cannot be read, so students" in capsys.readouterr().out


def test_two_who_look_alike_are_two_in_two_downloads(tmp_path):
    downloads = [{f"doejane_{user}_208_a.ipynb": ANSWER} for user in (340934, 340935)]
    for name in ("Ann", "Ann\u200b"):
        text = f"submission_1:\n  :submitters:\n  - :name: {name}\n".encode()
        downloads += [{f"{name}.ipynb": ANSWER}]
        downloads += [{"e/submission_1/a.ipynb": ANSWER, "e/submission_metadata.yml": text}]
    found = [find_submissions(zip_of(files, tmp_path / "d.zip"))[0] for files in downloads]
    assert {one.student for one in found[2:]} == {"Ann"}
    assert len({identity("", one.who) for one in found}) == len(found)


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of another account")
def test_a_newer_folder_that_another_account_made_replaces_nothing(tmp_path):
    newer = f"jdoe+hw+2027{ZONE}/exercises.ipynb"
    root = folder_of(files_of("exchange") | {newer: ANSWER}, tmp_path / "d")
    assert [made.path for made in find_submissions(root) if made.student == "jdoe"] == [newer]
    os.chown(root / newer, 65534, 65534)
    [jane] = [made for made in find_submissions(root) if made.student == "jdoe"]
    assert "2 accounts handed in under this name" in reason(jane)


@pytest.mark.parametrize("source", ["exchange", "gradescope"])
def test_a_source_that_says_when_tells_who_is_late(source, tmp_path):
    found = find_submissions(zip_of(files_of(source), tmp_path / "all.zip"))
    second = [datetime(2026, 2, 2, 15, 58, seconds, tzinfo=UTC) for seconds in (22, 24)]
    assert [any(one.is_after(due) for one in found) for due in second] == [True, False]


# --- files that must not be read


def test_a_large_file_is_refused_unread_and_when_it_grew(tmp_path):
    root = folder_of(["jdoe.ipynb", "rroe.ipynb"], tmp_path / "d")
    os.truncate(root / "jdoe.ipynb", 500_000_000)  # sparse: reading it would cost half a GB
    jane, richard = find_submissions(root)
    assert jane.fault == reason(jane) == "'jdoe.ipynb' has 500 MB; the limit is 20 MB"
    assert richard.fault is None
    os.truncate(root / "rroe.ipynb", 500_000_000)
    assert reason(richard) == "'rroe.ipynb' has 21 MB; the limit is 20 MB"


def test_links_pipes_and_devices_are_not_followed(tmp_path):
    root = folder_of(["good.ipynb", "../secret.ipynb", "deep/" * 21 + "a.ipynb"], tmp_path / "d")
    (root / "link.ipynb").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "pipe.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.ipynb"))
        found = {made.student: made for made in find_submissions(root)}
    assert found.pop("good").fault is None
    assert set(found) == {"link", "loop", "pipe", "s", "deep"}
    for submission in found.values():
        assert " is a link; " in reason(submission) or " is not a file: " in reason(submission)


@pytest.mark.parametrize("swap", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_a_file_that_was_swapped_is_refused(swap, tmp_path):
    """Between the list and the reading: no link is followed, and no pipe is waited for."""
    root = folder_of(["jdoe.ipynb"], tmp_path / "d")
    [found] = find_submissions(root)
    (root / "jdoe.ipynb").unlink()
    swap(root / "jdoe.ipynb")
    assert "cannot be read" in reason(found) or "it is empty" in reason(found)


def changed(data, *places):
    """A zip with other bytes after the first `signature`: of a format, at an offset."""
    made = bytearray(data)
    for signature, form, offset, value in places:
        struct.pack_into(form, made, made.index(signature) + offset, value)
    return bytes(made)


TABLE, LOCAL = b"PK\1\2", b"PK\3\4"  # before a member in the table of contents, and before its data
GOOD, LARGE = zip_of({"hw.ipynb": ANSWER}), zip_of({"hw.ipynb": bytes(21_000_000)})
LYING = changed(LARGE, (TABLE, "<I", 24, 1000), (LOCAL, "<I", 22, 1000))  # of its size
ZIPS = {
    "large": (LARGE, "has 21 MB; the limit is 20 MB"),
    "lying": (LYING, "cannot be read (Bad CRC-32 for file 'hw.ipynb'); hand it in again"),
    "link": (zip_of({member("hw.ipynb", stat.S_IFLNK): b"/etc/passwd"}), "is a link; hand in"),
    "pipe": (zip_of({member("hw.ipynb", stat.S_IFIFO): b""}), "is not a file: a device, a pipe"),
    "encrypted": (changed(GOOD, (TABLE, "<H", 8, 1), (LOCAL, "<H", 6, 1)), "is encrypted"),
    "two": (zip_of({"a.ipynb": ANSWER, "b.ipynb": ANSWER}), "holds 2 files that end in .ipynb"),
    "cut short": (GOOD[:-30], "is not a zip that can be read; zip it again"),
    "garbled": (changed(GOOD, (LOCAL, "<H", 38, 0xFFFF)), "cannot be read (Error -3 while"),
}


def test_a_zip_that_is_handed_in_is_opened_one_level_or_refused(tmp_path):
    files = {f"{name}.zip": data for name, (data, _) in ZIPS.items()}
    inner = {"work/hw.ipynb": ANSWER, "work/a.png": b"", "__MACOSX/work/._hw.ipynb": b""}
    files |= {"good.zip": zip_of(inner), "bzip2.zip": zip_of(inner, method=zipfile.ZIP_BZIP2)}
    found = {one.student: one for one in find_submissions(zip_of(files, tmp_path / "d"))}
    for name in ("good", "bzip2"):
        assert read_submission(found.pop(name).read()).cells[0].id == "answer-1"
    assert found.keys() == ZIPS.keys()
    for name, (_, words) in ZIPS.items():
        text = reason(found[name])
        assert words in text and text.startswith(f"'{name}.zip' ")


def test_members_of_the_download_are_bounded_and_lead_nowhere(tmp_path):
    climbing = ["../x.ipynb", "/etc/y.ipynb", "C:\\z.ipynb", "..\\..\\w.ipynb"]
    files = {member(name): ANSWER for name in climbing} | {"jdoe.ipynb": bytes(30_000_000)}
    found = {one.student: one for one in find_submissions(zip_of(files, tmp_path / "d.zip"))}
    assert found.pop("jdoe").fault == "'jdoe.ipynb' has 30 MB; the limit is 20 MB"
    assert found.keys() == {"x", "etc", "C:", "w"}
    assert all(read_submission(submission.read()) for submission in found.values())


@pytest.mark.parametrize("name", ["Zoë".encode(), b"Zo\x89"], ids=["macOS", "Windows"])
def test_names_in_a_zip_that_does_not_say_its_encoding(name, tmp_path):
    path, stand_in = tmp_path / "d.zip", "x" * len(name)
    path.write_bytes(zip_of({f"{stand_in}.ipynb": ANSWER}).replace(stand_in.encode(), name))
    assert find_submissions(path)[0].student == "Zoë"


# --- what is in the file

BAD = {
    b"": "(it is empty); save it and hand it in again",
    ANSWER[:-20]: "the file is not a notebook (Expecting value: line 1 column 129",
    b"\x80abc": "'utf-8' codec can't decode",
    b"[]": "the file is not a notebook",
    b"[" * 100_000: "maximum recursion depth exceeded",
    b'{"nbformat": ' + b"9" * 5000 + b"}": "Exceeds the limit",
    notebook(metadata={"a": json.loads("[" * 900 + "]" * 900)}): "maximum recursion depth",
    notebook(nbformat=3): "in none of the formats 4.0 to 4.5; save it in JupyterLab",
    notebook(cells=None): "its cells are none",
    notebook(cells=[{"cell_type": "code", "source": [None]}]): "its cells are none",
    notebook(cells=[{"cell_type": "heading", "source": "x"}]): "its cells are none",
    notebook(metadata={"kernelspec": {"language": "R"}}): "in 'r'; the answers are asked for in",
    notebook(metadata={"kernelspec": {"name": "julia-1.10"}}): "in 'julia'",
    notebook(metadata={"language_info": {"name": "\u202e\n" * 90}}): "asked for in Python",
}


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[-40:]))
def test_what_is_no_notebook_gets_a_reason_in_one_line(data):
    with pytest.raises(Refused) as refusal:
        read_submission(data)
    assert BAD[data] in str(refusal.value) and str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"name": "conda-env-r-py"}, "language_info": {"name": "python"}},
        {"kernelspec": None, "language_info": [], "accelerator": "GPU"},
    ],
)
def test_notebooks_of_every_service_are_read(metadata):
    for minor in range(6):
        data = b"\xef\xbb\xbf" + notebook(metadata=metadata, nbformat_minor=minor)
        assert read_submission(data).nbformat_minor == minor


def test_cells_come_as_they_were_handed_in():
    cells = [
        {"cell_type": "code", "id": "answer-1", "source": "a\ud800", "outputs": [{"x": 1}]},
        {"cell_type": "code", "id": "answer-1", "source": ["b\n", "c"], "metadata": {"tags": []}},
        {"cell_type": "raw", "id": 7, "source": "", "metadata": None},
    ]
    read = read_submission(notebook(cells=cells)).cells
    assert [dict(cell) for cell in read] == [
        {"cell_type": "code", "source": "a?", "metadata": {}, "id": "answer-1"},
        {"cell_type": "code", "source": "b\nc", "metadata": {"tags": []}, "id": "answer-1"},
        {"cell_type": "raw", "source": "", "metadata": {}},
    ]
