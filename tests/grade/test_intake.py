"""What instructors download, with everything that may be wrong with it."""

import io
import json
import os
import socket
import stat
import struct
import sys
import tomllib
import zipfile
from datetime import UTC, datetime

import pytest
from classroom import DATA
from helpers import refused

from coursework.grade.download import Refused
from coursework.grade.intake import find_submissions, identity
from coursework.grade.reading import read_submission

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")


def notebook(**changes):
    told = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    return json.dumps(told | changes).encode()


ANSWER = notebook(
    cells=[
        {
            "cell_type": "code",
            "id": "answer-1",
            "metadata": {},
            "source": ["a = 1\n", "a"],
        }
    ]
)
DOWNLOADS = tomllib.loads((DATA / "downloads.toml").read_text(encoding="utf-8"))
METADATA = "submission_metadata.yml"  # of Gradescope


ABOUT = "Name: {}\nAssignment: HW 3\nSubmission Field:\nName: Max (asmith)\n"  # by Blackboard
ATTEMPTS = {  # of which texts tell the name
    "HW 3_jdoe_attempt_2026-02-02-15-58-23.txt": ABOUT.format(
        "Jane Doe (jdoe)"
    ).encode(),
    "HW_3_j_doe_attempt_2026-02-02-15-58-23.txt": ABOUT.format(
        "John Doe (j_doe)"
    ).encode(),
    "HW_3_doe_attempt_2026-02-02-15-58-23.txt": ABOUT.format("Ann Doe (doe)").encode(),
}


def files_of(name):
    texts = {METADATA: (DATA / METADATA).read_bytes()}
    if name != "blackboard: the newest":  # where no text is as it should be
        texts |= ATTEMPTS
    return {
        path: texts.get(path.rpartition("/")[2], ANSWER) for path in DOWNLOADS[name]
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


def by_student(download, source=None):
    return {one.student: one for one in find_submissions(download, source)}


def reason(submission):
    """Why it is refused, when it is listed or when it is read: one line that shows as it reads."""
    with pytest.raises(Refused) as refusal:
        read_submission(submission.read())
    text = str(refusal.value)
    assert text.isprintable(), text
    return text


@pytest.mark.parametrize("make", [folder_of, zip_of])
@pytest.mark.parametrize("name", DOWNLOADS)
def test_a_download_is_recognised_and_nothing_chosen_that_it_does_not_tell(
    name, make, tmp_path, capsys
):
    found = find_submissions(make(files_of(name), tmp_path / "d"))
    assert capsys.readouterr().out.startswith(
        f"source: {name.split(':')[0]}, {len(found)} sub"
    )
    told = [student for student in DOWNLOADS[name].values() if student]
    assert len(found) == len(told)
    for submission in found:
        assert submission.late == ("LATE" in submission.path)
        if submission.fault:
            said = f"{submission.student}: {reason(submission)}"
            assert any(said.startswith(words) for words in told if ": " in words), said
        else:
            [path] = [
                path for path in DOWNLOADS[name] if path.endswith(submission.path)
            ]
            assert DOWNLOADS[name][path] == submission.student
            [cell] = read_submission(submission.read()).cells
            assert (cell.id, cell.source) == ("answer-1", "a = 1\na")


def test_a_source_may_be_named_and_what_is_no_download_is_an_error_in_one_line(
    tmp_path, capsys
):
    found = by_student(folder_of(["a.ipynb", "b.ipynb"], tmp_path / "d"), "moodle")
    line = "source: moodle, 2 submissions, 2 of them without a notebook to read\n"
    assert capsys.readouterr().out == line
    assert reason(found["a.ipynb"]).endswith(
        "names submissions, so its student is not known"
    )
    zip_of({}, tmp_path / "empty.zip")
    (tmp_path / "text").write_text("hello")
    for name, source, words in [
        ("nowhere", None, "no such file"),
        ("text", None, "neither a folder nor a zip"),
        ("empty.zip", None, "holds no submission; name the folder or zip of a"),
        ("empty.zip", "sakai", "SOURCE=sakai: no such source; choose from: grade"),
    ]:
        with refused(words):
            find_submissions(tmp_path / name, source)


UNKNOWN = {  # what is in a download of no known form, and what is said of it
    (
        "index.html",
        "Doe, Jane(jdoe)/a.ipynb",
        "Roe, Max(mroe)/a.ipynb",
    ): "('index.html': neither",
    (
        "exercises.ipynb",
        "exercises (1).ipynb",
        "Max.ipynb",
    ): "'exercises (1).ipynb': copies under",
    (
        "jdoe 2026-02-02.ipynb",
        "jdoe 2026-02-03.ipynb",
    ): "'jdoe 2026-02-02.ipynb', 'jdoe 2026-02-03",
    (
        "w1/a.ipynb",
        "w1/b.ipynb",
        "w2/a.ipynb",
        "w2/b.ipynb",
    ): "('w1', 'w2': folders of several",
    ("Jane Doe - hw.ipynb",): "which half of it is the student); add",
}


@pytest.mark.parametrize("names", UNKNOWN, ids=lambda names: names[0])
def test_a_download_of_no_known_form_is_refused_and_a_source_that_is_named_takes_it(
    names, tmp_path
):
    download = zip_of(dict.fromkeys(names, ANSWER), tmp_path / "d.zip")
    with refused(str(download), "not a known form", UNKNOWN[names], "SOURCE=plain"):
        find_submissions(download)
    assert find_submissions(download, "plain")


# --- who they are, and when they handed in


def test_ids_are_safe_and_unique_whatever_students_are_called(tmp_path):
    names = [
        "Ada",
        "ada",
        "Ädä",
        "Ada\u200f",
        "Ad a",
        "=cmd()",
        "a,b\nc",
        "..",
        "\u202eadA",
    ]
    names += ["名", "x" * 240, "ADA"]
    found = find_submissions(
        folder_of([f"{name}.ipynb" for name in names], tmp_path / "d")
    )
    assert len({submission.id for submission in found}) == len(names) == len(found)
    for submission in found:
        assert set(submission.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert len(submission.id) < 60 and read_submission(submission.read())
        assert submission.student.isprintable() and submission.path.isprintable()
    readable = [submission.id.rpartition("-")[0] for submission in found]
    assert readable.count("ada") == 6 and readable.count("student") == 2


def test_joiners_are_part_of_a_name(tmp_path, capsys):
    [name] = by_student(folder_of(["\u0928\u200d\u0930.ipynb"], tmp_path / "d"))
    assert name == "\u0928\u200d\u0930"
    assert capsys.readouterr().out == "source: plain, 1 submissions\n"


def test_a_text_that_a_student_of_blackboard_handed_in_names_nobody(tmp_path):
    attempt = "HW 3_jdoe_attempt_2026-02-02-15-58-23"
    files = files_of("blackboard") | {
        f"{attempt}_a.txt": ABOUT.format("Max (jdoe)").encode()
    }
    assert "Jane Doe (Blackboard jdoe)" in by_student(zip_of(files, tmp_path / "d"))


def test_a_user_name_of_blackboard_that_may_hold_a_stroke_is_not_guessed(tmp_path):
    name = "HW_3_doe_attempt_2026-02-02-15-58-23_a.ipynb"
    found = by_student(zip_of({name: ANSWER}, tmp_path / "d"), "blackboard")
    assert "has no text beside it that says whose it is" in reason(found[name])


def test_two_notebooks_of_a_student_are_named_and_nothing_else(tmp_path):
    files = ["jdoe/a.png", "jdoe/A.IPYNB", "jdoe/b.ipynb", "max/a.png", "max/b.IPYNB"]
    found = by_student(folder_of(files, tmp_path / "d"), "plain")
    assert (
        reason(found["jdoe"])
        == "'A.IPYNB' and 'b.ipynb' were handed in; keep one notebook"
    )
    assert read_submission(found["max"].read()).cells


def test_two_who_look_alike_are_two_in_two_downloads(tmp_path):
    downloads = [{f"doejane_{user}_208_a.ipynb": ANSWER} for user in (340934, 340935)]
    for name in ("Ann", "Ann\u200b"):
        text = f"submission_1:\n  :submitters:\n  - :name: {name}\n".encode()
        downloads += [{f"{name}.ipynb": ANSWER}]
        downloads += [{"e/submission_1/a.ipynb": ANSWER, f"e/{METADATA}": text}]
    found = [
        find_submissions(zip_of(files, tmp_path / "d.zip"))[0] for files in downloads
    ]
    assert {one.student for one in found[2:]} == {"Ann"}
    assert len({identity("", one.who) for one in found}) == len(found)


def test_metadata_of_gradescope_name_students_if_gradescope_wrote_them(
    tmp_path, capsys
):
    def students(changes):
        files = files_of("gradescope")
        top = next(iter(files)).partition("/")[0]
        files |= {f"{top}/{name}": data for name, data in changes.items()}
        return sorted(by_student(folder_of(files, tmp_path / "d")))

    mine = (DATA / METADATA).read_bytes().replace(b"456", b"458")
    known = [
        "Jane Doe (s1001)",
        "Richard Roe (r@example.org); Max (s1002)",
        "submission_458",
    ]
    assert students({f"submission_458/{METADATA}": mine}) == known
    nobody = [f"submission_{n}" for n in (456, 457, 458)]
    for text in (
        b"- [",
        b"a: &a [*a]",
        b"\xff\xfe",
        b"a: !!python/object:os.x {}",
        b"- a\n- b",
    ):
        assert students({METADATA: text}) == nobody
        assert f"{METADATA}: cannot be read, so students" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["exchange", "gradescope"])
def test_a_source_that_says_when_tells_who_is_late(source, tmp_path):
    found = find_submissions(zip_of(files_of(source), tmp_path / "all.zip"))
    second = [datetime(2026, 2, 2, 15, 58, seconds, tzinfo=UTC) for seconds in (22, 24)]
    assert [any(one.time and one.time > due for one in found) for due in second] == [
        True,
        False,
    ]


def test_a_time_of_no_zone_is_not_guessed_and_ilias_says_who_is_late(tmp_path):
    for source in ("blackboard", "brightspace"):
        found = find_submissions(zip_of(files_of(source), tmp_path / source))
        assert [(one.time, one.late) for one in found] == [(None, False)] * len(found)
    for word in ("Late Submission", "Verspaetete Abgabe"):
        name = f"Doe_Jane_jdoe_1234/{word} - exercises.ipynb"
        [found] = find_submissions(zip_of({name: ANSWER}, tmp_path / "ilias"))
        assert (found.student, found.late) == ("Doe_Jane_jdoe (ILIAS 1234)", True)


def test_a_student_of_blackboard_keeps_the_id_when_one_notebook_is_graded_again(
    tmp_path,
):
    everything = find_submissions(zip_of(files_of("blackboard"), tmp_path / "d"))
    [before] = [one for one in everything if one.student.startswith("Jane Doe")]
    [again] = find_submissions(
        folder_of([before.path], tmp_path / "again") / before.path
    )
    assert (again.student, again.make_id()) == (
        "jdoe (Blackboard jdoe)",
        before.make_id(),
    )


@pytest.mark.skipif(os.getuid() != 0, reason="makes files of another account")
def test_a_newer_folder_that_another_account_made_replaces_nothing(tmp_path):
    newer = "jdoe+hw+2027-02-02 15:58:23.948203 UTC/exercises.ipynb"
    root = folder_of(files_of("exchange") | {newer: ANSWER}, tmp_path / "d")
    assert by_student(root)["jdoe"].path == newer
    os.chown(root / newer, 65534, 65534)
    assert "2 accounts handed in under this name" in reason(by_student(root)["jdoe"])


# --- files that must not be read


def test_a_file_that_is_large_or_no_file_or_another_by_now_is_not_read(tmp_path):
    names = [
        "good",
        "grew",
        "now-a-link",
        "now-a-pipe",
        "large",
        "../secret",
        "deep/" * 21 + "a",
    ]
    root = folder_of([f"{name}.ipynb" for name in names], tmp_path / "d")
    (root / "longest.ipynb").touch()
    os.truncate(root / "longest.ipynb", 20_000_000)
    os.truncate(
        root / "large.ipynb", 500_000_000
    )  # sparse: reading it would cost half a GB
    (root / "link.ipynb").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "pipe.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.ipynb"))
        found = by_student(root)
    os.truncate(root / "grew.ipynb", 500_000_000)
    for name in ("now-a-link", "now-a-pipe"):
        (root / f"{name}.ipynb").unlink()
    (root / "now-a-link.ipynb").symlink_to("/etc/passwd")
    os.mkfifo(root / "now-a-pipe.ipynb")
    assert read_submission(found.pop("good").read())
    for name, said in {
        "large": "'large.ipynb' has 500 MB; the limit is 20 MB",
        "grew": "'grew.ipynb' has 21 MB; the limit is 20 MB",  # no more of it was read
        "longest": "the file is not a notebook",  # though it was read
        "now-a-link": "cannot be read",
        "now-a-pipe": "it is empty",  # and nobody waited for it
        **dict.fromkeys(["link", "loop"], " is a link; "),
        **dict.fromkeys(["pipe", "s", "deep"], " is not a file: "),
    }.items():
        assert said in reason(found.pop(name)), name
    assert not found


def changed(data, *places):
    """A zip with other bytes after the first `signature`: of a format, at an offset."""
    made = bytearray(data)
    for signature, form, offset, value in places:
        struct.pack_into(form, made, made.index(signature) + offset, value)
    return bytes(made)


TABLE, LOCAL = (
    b"PK\1\2",
    b"PK\3\4",
)  # before a member in the table of contents, and before its data
GOOD, LARGE = zip_of({"hw.ipynb": ANSWER}), zip_of({"hw.ipynb": bytes(21_000_000)})
LYING = changed(LARGE, (TABLE, "<I", 24, 1000), (LOCAL, "<I", 22, 1000))  # of its size
ZIPS = {
    "large": (LARGE, "has 21 MB; the limit is 20 MB"),
    "lying": (
        LYING,
        "cannot be read (Bad CRC-32 for file 'hw.ipynb'); hand it in again",
    ),
    "link": (
        zip_of({member("hw.ipynb", stat.S_IFLNK): b"/etc/passwd"}),
        "is a link; hand in",
    ),
    "pipe": (
        zip_of({member("hw.ipynb", stat.S_IFIFO): b""}),
        "is not a file: a device, a pipe",
    ),
    "encrypted": (
        changed(GOOD, (TABLE, "<H", 8, 1), (LOCAL, "<H", 6, 1)),
        "is encrypted",
    ),
    "two": (
        zip_of({"a.ipynb": ANSWER, "b.ipynb": ANSWER}),
        "holds 2 files that end in .ipynb",
    ),
    "cut short": (GOOD[:-30], "is not a zip that can be read; zip it again"),
    "garbled": (
        changed(GOOD, (LOCAL, "<H", 38, 0xFFFF)),
        "cannot be read (Error -3 while",
    ),
}


def test_a_zip_that_is_handed_in_is_opened_one_level_or_refused(tmp_path):
    """In a zip, whose own members are bounded, and lead nowhere."""
    files = {f"{name}.zip": data for name, (data, _) in ZIPS.items()}
    inner = {
        "work/hw.ipynb": ANSWER,
        "work/a.png": b"",
        "__MACOSX/work/._hw.ipynb": b"",
    }
    files |= {
        "CAPITALS.ZIP": zip_of({"HW.IPYNB": ANSWER}),
        "good.zip": zip_of(inner),
        "bzip2.zip": zip_of(inner, method=zipfile.ZIP_BZIP2),
    }
    climbing = ["../x.ipynb", "/etc/y.ipynb", "C:\\z.ipynb", "..\\..\\w.ipynb"]
    files |= {member(name): ANSWER for name in climbing} | {
        "jdoe.ipynb": bytes(30_000_000)
    }
    found = by_student(zip_of(files, tmp_path / "d"))
    assert found.pop("jdoe").fault == "'jdoe.ipynb' has 30 MB; the limit is 20 MB"
    for name in ("CAPITALS", "good", "bzip2", "x", "etc", "C:", "w"):
        assert read_submission(found.pop(name).read()).cells[0].id == "answer-1"
    assert found.keys() == ZIPS.keys()
    for name, (_, words) in ZIPS.items():
        text = reason(found[name])
        assert words in text and text.startswith(f"'{name}.zip' ")


@pytest.mark.parametrize("name", ["Zoë".encode(), b"Zo\x89"], ids=["macOS", "Windows"])
def test_names_in_a_zip_that_does_not_say_its_encoding(name, tmp_path):
    path, stand_in = tmp_path / "d.zip", "x" * len(name)
    path.write_bytes(
        zip_of({f"{stand_in}.ipynb": ANSWER}).replace(stand_in.encode(), name)
    )
    assert by_student(path).keys() == {"Zoë"}


# --- what is in the file

BAD = {
    b"": "(it is empty); save it and hand it in again",
    ANSWER[
        :-20
    ]: "the file is not a notebook or is cut short (Expecting value: line 1 column 129",
    b"\x80abc": "'utf-8' codec can't decode",
    b"[]": "the file is not a notebook or is cut short",
    b"[" * 100_000: "maximum recursion depth exceeded",
    b'{"nbformat": ' + b"9" * 5000 + b"}": "Exceeds the limit",
    notebook(
        metadata={"a": json.loads("[" * 900 + "]" * 900)}
    ): "maximum recursion depth",
    notebook(nbformat=3): "in none of the formats 4.0 to 4.5; save it in JupyterLab",
    notebook(cells=None): "its cells cannot be read",
    notebook(
        cells=[{"cell_type": "code", "source": [None]}]
    ): "its cells cannot be read",
    notebook(
        cells=[{"cell_type": "heading", "source": "x"}]
    ): "its cells cannot be read",
    notebook(
        metadata={"kernelspec": {"language": "R"}}
    ): "in 'r'; the answers are asked for in",
    notebook(metadata={"kernelspec": {"name": "julia-1.10"}}): "in 'julia'",
    notebook(
        metadata={"language_info": {"name": "\u202e\n" * 90}}
    ): "asked for in Python",
}


@pytest.mark.parametrize("data", BAD, ids=lambda data: repr(data[-40:]))
def test_what_is_no_notebook_gets_a_reason_in_one_line(data):
    with pytest.raises(Refused) as refusal:
        read_submission(data)
    assert BAD[data] in str(refusal.value) and str(refusal.value).isprintable()


def test_cells_come_as_they_were_handed_in_by_every_service():
    for told in (
        {"kernelspec": {"name": "conda-env-r-py"}, "language_info": {"name": "python"}},
        {"kernelspec": None, "language_info": [], "accelerator": "GPU"},
    ):
        for minor in range(6):
            data = b"\xef\xbb\xbf" + notebook(metadata=told, nbformat_minor=minor)
            read = read_submission(data)
            assert (read.nbformat, read.nbformat_minor) == (4, minor)
    cells = [
        {
            "cell_type": "code",
            "id": "answer-1",
            "source": "a\ud800",
            "outputs": [{"x": 1}],
        },
        {
            "cell_type": "code",
            "id": "answer-1",
            "source": ["b\n", "c"],
            "metadata": {"tags": []},
        },
        {"cell_type": "raw", "id": 7, "source": "", "metadata": None},
    ]
    read = read_submission(notebook(cells=cells)).cells
    assert [dict(cell) for cell in read] == [
        {"cell_type": "code", "source": "a?", "metadata": {}, "id": "answer-1"},
        {
            "cell_type": "code",
            "source": "b\nc",
            "metadata": {"tags": []},
            "id": "answer-1",
        },
        {"cell_type": "raw", "source": "", "metadata": {}},
    ]
