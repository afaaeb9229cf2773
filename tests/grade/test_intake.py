"""What instructors download, with everything that may be wrong with it. The names are invented."""

import io
import json
import os
import socket
import stat
import struct
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from tools.errors import BookError
from tools.grade.intake import Refused, find_submissions, read_submission

NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}


def notebook(**changes):
    return json.dumps(NOTEBOOK | changes).encode()


ANSWER = notebook(
    cells=[{"cell_type": "code", "id": "answer-1", "metadata": {}, "source": ["a = 1\n", "a"]}]
)
EXPORT, INBOUND = "assignment_123_export", "+computing-devices+2026-02-02 15:58:23.948203 UTC"
DOWNLOADS = {  # of each source the paths, and how each student is then called
    "canvas": {  # attachments are numbered as they are uploaded
        "doejane_340934_208490284_computing-devices.ipynb": "doejane (Canvas 340934)",
        "roerichard_LATE_340935_208490290_hw-2.ipynb": "roerichard (Canvas 340935)",
        "öztürkayşe_340936_208490299_Copy of hw (1).ipynb": "öztürkayşe (Canvas 340936)",
        "group7_340937_208490300_x.ipynb": "group7 (Canvas 340937)",
    },
    "moodle": {
        "Jane Doe_123456_assignsubmission_file/computing-devices.ipynb": "Jane Doe (Moodle 123456)",
        "O'Roe, R_123457_assignsubmission_file_/work/a.ipynb": "O'Roe, R (Moodle 123457)",
        "王小明_123458_assignsubmission_file/a.ipynb": "王小明 (Moodle 123458)",
        "Participant_123459_assignsubmission_file/a.ipynb": "Participant (Moodle 123459)",
    },
    "moodle flat": {
        "Jane Doe_123456_assignsubmission_file_computing-devices.ipynb": "Jane Doe (Moodle 123456)",
        "R Roe_123457_assignsubmission_file_my_work_1.ipynb": "R Roe (Moodle 123457)",
    },
    "exchange": {
        f"jdoe{INBOUND}+kX9_a-b=/exercises.ipynb": "jdoe",
        f"jdoe{INBOUND}+kX9_a-b=/timestamp.txt": None,
        f"r+roe{INBOUND}/computing-devices.ipynb": "r+roe",
    },
    "nbgrader": {
        "submitted/jdoe/computing-devices/computing-devices.ipynb": "jdoe",
        "submitted/rroe/computing-devices/computing-devices.ipynb": "rroe",
    },
    "plain": {"jdoe.ipynb": "jdoe", "Richard Roe/whatever.ipynb": "Richard Roe"},
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
    return {
        path: METADATA if path.endswith("yml") else b"now" if path.endswith("txt") else ANSWER
        for path in DOWNLOADS[name]
    }


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


@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_recognised_as_folder_and_as_zip(name, tmp_path, capsys):
    students = sorted(student for student in DOWNLOADS[name].values() if student)
    ids = []
    for path in (
        folder_of(files_of(name), tmp_path / "d"),
        zip_of(files_of(name), tmp_path / "d.zip"),
    ):
        found = find_submissions(path)
        line = f"source: {name.split()[0]}, {len(students)} submissions\n"
        assert capsys.readouterr().out == line
        assert sorted(submission.student for submission in found) == students
        for submission in found:
            [cell] = read_submission(submission.read()).cells
            assert (cell.id, cell.source) == ("answer-1", "a = 1\na")
            assert submission.late == ("LATE" in submission.path)
        ids.append([submission.id for submission in found])
    assert ids[0] == ids[1]


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
    root = folder_of(list(DOWNLOADS["plain"]), tmp_path / "d")
    found = find_submissions(root, "moodle")
    line = "source: moodle, 2 submissions, 2 of them without a notebook to read\n"
    assert capsys.readouterr().out == line
    assert reason(found[0]).endswith(".ipynb' is not named as moodle names what is handed in")
    with pytest.raises(BookError, match="SOURCE=blackboard: no such source; choose from: grade"):
        find_submissions(root, "blackboard")


def test_what_is_no_download_is_an_error_in_one_line(tmp_path):
    zip_of({}, tmp_path / "empty.zip")
    (tmp_path / "text").write_text("hello")
    for name, words in {
        "nowhere": "no such file",
        "text": "neither a folder nor a zip",
        "empty.zip": r"^\S+: holds no submission; name the folder or zip of a",
    }.items():
        with pytest.raises(BookError, match=words):
            find_submissions(tmp_path / name)


# --- which file counts, of several. Each: paths, what comes out of them by student

STAMP = "-02-02 15:58:23.9 UTC+r"
KEEP_ONE = "'a.ipynb' and 'b.ipynb' were handed in; keep one notebook"
NOT_CANVAS = "is not named as canvas names what is handed in"
SEVERAL = {
    "the newest on Canvas": (
        ["doe_1_20_hw.ipynb", "doe_1_21_hw-1.ipynb", "doe_1_22_hw-2.ipynb", "doe_1_9_hw-3.ipynb"],
        {"doe (Canvas 1)": "doe_1_22_hw-2.ipynb"},
    ),
    "the newest of the exchange": (
        [
            f"jdoe+hw+2026{STAMP}/a.ipynb",
            f"jdoe+hw+2027{STAMP}/b.ipynb",
            f"jdoe+hw+2025{STAMP}/c.ipynb",
        ],
        {"jdoe": f"jdoe+hw+2027{STAMP}/b.ipynb"},
    ),
    "two of one student": (["jdoe/a.ipynb", "jdoe/b/b.ipynb", "r/a.ipynb"], {"jdoe": KEEP_ONE}),
    "two of one assignment": (["j/hw/a.ipynb", "j/hw/b.ipynb", "r/hw/a.ipynb"], {"j": KEEP_ONE}),
    "two assignments": (
        ["j/hw1/a.ipynb", "j/hw2/b.ipynb", "r/hw1/a.ipynb"],
        {"j": "j/hw2/b.ipynb", "r": "r/hw1/a.ipynb"},
    ),
    "two on Canvas": (
        ["d_1_2_a.ipynb", "d_1_3_b.ipynb", "d_2_3_c.csv", "poe_LATE_7_text.html"],
        {
            "d (Canvas 1)": "'d_1_2_a.ipynb' and 'd_1_3_b.ipynb' were handed in; keep one notebook",
            "d (Canvas 2)": "'d_2_3_c.csv': no notebook, which ends in .ipynb",
            "poe (Canvas 7)": "'poe_LATE_7_text.html': no notebook, which ends in .ipynb",
        },
    ),
    "other names among many": (  # 'x_340935' is not the student 340935
        [*DOWNLOADS["canvas"], "x_340935_340999_2084_a.ipynb", "notes.ipynb"],
        {
            name: f"'{name}' {NOT_CANVAS}"
            for name in ("x_340935_340999_2084_a.ipynb", "notes.ipynb")
        },
    ),
    "what lies beside a notebook": (
        [
            *("jdoe/hw.ipynb", "jdoe/a.png", "jdoe/__MACOSX/._hw.ipynb", "jdoe/.DS_Store"),
            *("rroe/a.png", "rroe/data.csv", "rroe/.ipynb_checkpoints/hw.ipynb", "__MACOSX/._j"),
        ],
        {
            "jdoe": "jdoe/hw.ipynb",
            "rroe": "'a.png' and 'data.csv': no notebook, which ends in .ipynb",
        },
    ),
    "a name that says an id": (
        ["Eve; doe (Canvas 340934).ipynb"],
        {"Eve, doe [Canvas 340934]": "Eve; doe (Canvas 340934).ipynb"},
    ),
    "the most decide": (["d_1_2_a.ipynb", "x.ipynb", "y.ipynb"], {"d_1_2_a": "d_1_2_a.ipynb"}),
}


@pytest.mark.parametrize("what", SEVERAL)
def test_nothing_is_chosen_that_the_source_does_not_tell(what, tmp_path):
    paths, expected = SEVERAL[what]
    found = find_submissions(folder_of(paths, tmp_path / "d"))
    got = {(made.student, reason(made) if made.fault else made.path) for made in found}
    assert expected.items() <= got
    refused = set(expected.values()) - set(paths)
    assert len(refused) == sum(made.fault is not None for made in found)


def test_nobody_can_hand_in_who_they_are(tmp_path):
    mine = b"submission_458:\n  :submitters:\n  - :name: Jane Doe\n    :sid: s1001\n"
    files = files_of("gradescope") | {f"{EXPORT}/submission_458/submission_metadata.yml": mine}
    found = find_submissions(folder_of(files, tmp_path / "d"))
    known = [student for student in DOWNLOADS["gradescope"].values() if student]
    assert sorted(submission.student for submission in found) == sorted(known)


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="makes files of another account")
def test_a_newer_folder_that_another_account_made_replaces_nothing(tmp_path):
    newer = f"jdoe{INBOUND.replace('2026', '2027')}/exercises.ipynb"
    root = folder_of(files_of("exchange") | {newer: ANSWER}, tmp_path / "d")
    assert [made.path for made in find_submissions(root) if made.student == "jdoe"] == [newer]
    os.chown(root / newer, 65534, 65534)
    [jane] = [made for made in find_submissions(root) if made.student == "jdoe"]
    assert "2 accounts handed in under this name" in reason(jane)


DUE = datetime(2026, 2, 2, 15, 58, 22, tzinfo=UTC)


@pytest.mark.parametrize("source", ["exchange", "gradescope"])
def test_a_source_that_says_when_tells_who_is_late(source, tmp_path):
    found = find_submissions(zip_of(files_of(source), tmp_path / "all.zip"))
    after = {one.is_after(DUE) for one in found if one.time}
    assert True in after and not any(one.is_after(DUE + timedelta(days=900)) for one in found)


@pytest.mark.parametrize(
    "text", [b"- [", b"a: &a [*a]", b"\xff\xfe", b"!!python/object:os.x {}", b"- a\n- b"]
)
def test_metadata_of_gradescope_that_cannot_be_read_name_nobody(text, tmp_path):
    files = files_of("gradescope") | {f"{EXPORT}/submission_metadata.yml": text}
    found = find_submissions(folder_of(files, tmp_path))
    assert [made.student for made in found] == [f"submission_{n}" for n in (456, 457, 458)]


# --- files that must not be read


def test_a_large_file_is_refused_unread_and_when_it_grew(tmp_path):
    root = folder_of(["jdoe.ipynb", "rroe.ipynb"], tmp_path / "d")
    os.truncate(root / "jdoe.ipynb", 500_000_000)  # sparse: reading it would cost half a GB
    jane, richard = find_submissions(root)
    assert jane.fault == "'jdoe.ipynb' has 500 MB; the limit is 20 MB"
    assert reason(jane) and richard.fault is None
    os.truncate(root / "rroe.ipynb", 500_000_000)
    assert reason(richard) == "'rroe.ipynb' has 21 MB; the limit is 20 MB"


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
def test_links_pipes_and_devices_are_not_followed(tmp_path):
    root = folder_of(["good.ipynb", "../secret.ipynb"], tmp_path / "d")
    (root / "link.ipynb").symlink_to("/etc/passwd")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "zero.ipynb").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.ipynb"))
        found = {made.student: made for made in find_submissions(root)}
    assert found.pop("good").fault is None
    assert set(found) == {"link", "folder", "loop", "zero", "pipe", "s"}
    for submission in found.values():
        assert " is a link; " in reason(submission) or " is not a file: " in reason(submission)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
@pytest.mark.parametrize("swap", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_a_file_that_was_swapped_is_refused(swap, tmp_path):
    """Between the list and the reading: no link is followed, and no pipe is waited for."""
    root = folder_of(["jdoe.ipynb"], tmp_path / "d")
    [found] = find_submissions(root)
    (root / "jdoe.ipynb").unlink()
    swap(root / "jdoe.ipynb")
    assert "cannot be read" in reason(found) or "is a device or a pipe" in reason(found)


def test_a_member_that_climbs_out_is_a_row_and_stops_nothing(tmp_path):
    climbing = ["../x.ipynb", "a/../../y.ipynb", "/etc/z.ipynb", "C:\\x.ipynb", "..\\w.ipynb"]
    names = [*map(member, climbing), "jdoe.ipynb", "rroe.ipynb"]
    found = find_submissions(zip_of(dict.fromkeys(names, ANSWER), tmp_path / "d"))
    good = [made for made in found if made.fault is None]
    assert [made.student for made in good] == ["jdoe", "rroe"]
    assert all(read_submission(made.read()) for made in good)
    bad = [reason(made) for made in found if made.fault]
    assert bad and all("climbs out of its zip" in text for text in bad)


def lying(data, size=1000):
    """The zip with another size in its table of contents and before its member."""
    changed = bytearray(data)
    struct.pack_into("<I", changed, data.rindex(b"PK\1\2") + 24, size)
    struct.pack_into("<I", changed, data.index(b"PK\3\4") + 22, size)
    return bytes(changed)


def flagged(data, on=0, off=0):
    """The zip with bits of its members' flags set or not."""
    changed = bytearray(data)
    for start, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = data.index(start) + offset
        [flags] = struct.unpack_from("<H", data, at)
        struct.pack_into("<H", changed, at, flags & ~off | on)
    return bytes(changed)


def test_a_zip_that_is_handed_in_is_opened_one_level_or_refused(tmp_path):
    good = zip_of({"hw.ipynb": ANSWER})
    large = zip_of({"hw.ipynb": bytes(60_000_000)})
    refused = {
        "bomb": (zip_of({"x": bytes(120_000_000)}), "unpacks to 120 MB; the limit is 100 MB"),
        "large": (large, "holds 'hw.ipynb', which has 60 MB; the limit is 20 MB"),
        "lying": (lying(large), "is damaged in its zip; zip it again"),
        "many": (
            zip_of({f"{number}.txt": b"" for number in range(1001)}),
            "holds more than 1000 files; zip the notebook alone",
        ),
        "climbing": (zip_of({member("../hw.ipynb"): ANSWER}), "holds '../hw.ipynb', which climbs"),
        "link": (zip_of({member("hw.ipynb", stat.S_IFLNK): b"/etc/passwd"}), "which is a link"),
        "pipe": (zip_of({member("hw.ipynb", stat.S_IFIFO): b""}), "which is a device or a pipe"),
        "encrypted": (flagged(good, on=1), "which is encrypted; zip it without a password"),
        "bzip2": (zip_of({"a.ipynb": ANSWER}, method=zipfile.ZIP_BZIP2), "in an unusual way"),
        "zip in zip": (zip_of({"hw.zip": good}), "holds no notebook: no file that ends in .ipynb"),
        "two": (zip_of({"a.ipynb": ANSWER, "b.ipynb": ANSWER}), "holds 'a.ipynb' and 'b.ipynb'"),
        "cut short": (good[:-30], "is not a zip that can be read; zip it again"),
        "damaged": (good.replace(b"PK\3\4", b"PK\3\5"), "is damaged"),
    }
    files = {f"{name}.zip": data for name, (data, _) in refused.items()}
    inner = {"work/hw.ipynb": ANSWER, "work/a.png": b"", "__MACOSX/work/._hw.ipynb": b""}
    found = find_submissions(zip_of(files | {"good.zip": zip_of(inner)}, tmp_path / "d"))
    by_name = {submission.student: submission for submission in found}
    assert read_submission(by_name.pop("good").read()).cells[0].id == "answer-1"
    assert by_name.keys() == refused.keys()
    for name, (_, words) in refused.items():
        text = reason(by_name[name])
        assert words in text and text.startswith(f"'{name}.zip' ")


def test_members_of_the_download_are_bounded(tmp_path):
    files = {"rroe.ipynb": ANSWER, "jdoe.ipynb": bytes(30_000_000)}
    jane, richard = find_submissions(zip_of(files, tmp_path / "d.zip"))
    assert jane.fault == "'jdoe.ipynb' has 30 MB; the limit is 20 MB" and richard.fault is None
    (tmp_path / "lying.zip").write_bytes(lying(zip_of({"hw.ipynb": bytes(60_000_000)})))
    [found] = find_submissions(tmp_path / "lying.zip")
    assert reason(found) == "'hw.ipynb' is damaged in its zip; zip it again"


def test_names_in_a_zip_that_does_not_say_its_encoding(tmp_path):
    path = tmp_path / "d.zip"
    path.write_bytes(flagged(zip_of({member("Zoë.ipynb"): ANSWER}), off=0x800))
    assert [submission.student for submission in find_submissions(path)] == ["Zoë"]


# --- what is in the file

BAD = {
    b"": "the file is not a notebook: empty; save it and hand it in again",
    ANSWER[:-20]: "its JSON ends or errs in line 1",
    b"\x80abc": "not UTF-8",
    b"[]": "it names no nbformat",
    b"[" * 100_000: "lists in lists without end",
    b'{"nbformat": ' + b"9" * 5000 + b"}": "its JSON ends or errs",
    notebook(nbformat=3): "the file is in format 3, of before 2015; open it in JupyterLab",
    notebook(nbformat="4"): "it names no nbformat",
    notebook(nbformat=5): "in a format that is not known here; the formats 4.0 to 4.5 are",
    notebook(nbformat_minor="x"): "not known here",
    notebook(cells={"a": 1}): "it has no list of cells",
    notebook(cells=["x"]): "cell 1 is not a cell",
    notebook(cells=[{"cell_type": "code", "source": [None]}]): "cell 1 is not a cell",
    notebook(cells=[{"cell_type": "heading", "source": "x"}]): "cell 1 is not a cell",
    notebook(metadata={"kernelspec": {"language": "R"}}): "in 'r'; the answers are asked for in",
    notebook(metadata={"kernelspec": {"name": "julia-1.10"}}): "in 'julia'",
    notebook(metadata={"language_info": {"name": "\u202e\n" * 90}}): "asked for in Python",
}


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[-40:]))
def test_what_is_no_notebook_gets_a_reason_in_one_line(data):
    with pytest.raises(Refused) as refusal:
        read_submission(data)
    assert BAD[data] in str(refusal.value) and str(refusal.value).isprintable()


@pytest.mark.parametrize("minor", range(6))
def test_notebooks_of_every_service_are_read(minor):
    for metadata in (
        {"kernelspec": {"name": "my-env"}, "language_info": {"name": "python", "version": "3"}},
        {"kernelspec": {"name": "conda-env-r-py"}},
        {"accelerator": "GPU", "colab": {"provenance": []}},
        {"kernelspec": None, "language_info": []},
    ):
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
