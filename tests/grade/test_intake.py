"""What instructors download, with everything that may be wrong with it. The names are invented."""

import io
import json
import os
import socket
import stat
import struct
import zipfile

import pytest

from tools.errors import BookError
from tools.grade import intake
from tools.grade.intake import (
    LIMIT,
    Refused,
    clean,
    find_submissions,
    read_submission,
    recognised,
)

NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}


def notebook(**changes):
    return json.dumps(NOTEBOOK | changes).encode()


ANSWER = notebook(
    cells=[{"cell_type": "code", "id": "answer-1", "metadata": {}, "source": ["a = 1\n", "a"]}]
)

CANVAS = {  # attachments are numbered as they are uploaded
    "doejane_340934_208490284_computing-devices.ipynb": "doejane (Canvas 340934)",
    "roerichard_LATE_340935_208490290_computing-devices-2.ipynb": "roerichard (Canvas 340935)",
    "öztürkayşe_340936_208490299_Copy of computing-devices (1).ipynb": "öztürkayşe (Canvas 340936)",
    "group7_340937_208490300_x.ipynb": "group7 (Canvas 340937)",
}
MOODLE = {
    "Jane Doe_123456_assignsubmission_file/computing-devices.ipynb": "Jane Doe (Moodle 123456)",
    "O'Roe, Richard_123457_assignsubmission_file_/work/a.ipynb": "O'Roe, Richard (Moodle 123457)",
    "王小明_123458_assignsubmission_file/a.ipynb": "王小明 (Moodle 123458)",
    "Participant_123459_assignsubmission_file/a.ipynb": "Participant (Moodle 123459)",
}
MOODLE_FLAT = {
    "Jane Doe_123456_assignsubmission_file_computing-devices.ipynb": "Jane Doe (Moodle 123456)",
    "Richard Roe_123457_assignsubmission_file_my_work_1.ipynb": "Richard Roe (Moodle 123457)",
}
EXCHANGE = {
    "jdoe+computing-devices+2026-02-02 15:58:23.948203 UTC+kX9_a-b=/exercises.ipynb": "jdoe",
    "r+roe+computing-devices+2026-02-02 15:58:23.948203 UTC/computing-devices.ipynb": "r+roe",
}
NBGRADER = {
    "submitted/jdoe/computing-devices/computing-devices.ipynb": "jdoe",
    "submitted/rroe/computing-devices/computing-devices.ipynb": "rroe",
}
PLAIN = {"jdoe.ipynb": "jdoe", "Richard Roe/whatever.ipynb": "Richard Roe"}
GRADESCOPE = {
    "assignment_123_export/submission_456/a.ipynb": "Jane Doe (s1001)",
    "assignment_123_export/submission_457/a.ipynb": "Richard Roe (r@example.org); Max (s1002)",
    "assignment_123_export/submission_458/a.ipynb": "submission_458",
}
METADATA = """\
---
submission_456:
  :submitters:
  - :name: Jane Doe
    :sid: s1001
    :email: jane@example.org
  :created_at: 2026-02-02 15:58:23.948203000 Z
  :score: !ruby/object:BigDecimal 18:0.0
  :history: []
submission_457:
  :submitters:
  - :name: Richard Roe
    :sid:
    :email: r@example.org
  - :name: Max
    :sid: s1002
    :email: m@example.org
"""
DOWNLOADS = {
    "canvas": CANVAS,
    "moodle": MOODLE,
    "moodle flat": MOODLE_FLAT,
    "exchange": EXCHANGE,
    "nbgrader": NBGRADER,
    "plain": PLAIN,
    "gradescope": GRADESCOPE,
}


def files_of(name):
    files = dict.fromkeys(DOWNLOADS[name], ANSWER)
    if name == "gradescope":
        files["assignment_123_export/submission_metadata.yml"] = METADATA.encode()
    if name == "exchange":
        files |= {f"{path.split('/')[0]}/timestamp.txt": b"now" for path in list(files)}
    return files


def folder_of(files, root):
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def zip_of(files, path=None):
    """A zip of names or ZipInfos with their data: written to `path`, or its bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    if path is None:
        return made.getvalue()
    path.write_bytes(made.getvalue())
    return path


def member(name, mode=stat.S_IFREG | 0o644):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def reason(submission):
    """Why it is refused, when it is listed or when it is read."""
    with pytest.raises(Refused) as refusal:
        read_submission(submission.read())
    text = str(refusal.value)
    assert len(text.splitlines()) == 1 and text.isprintable(), text
    return text


@pytest.mark.parametrize("name", DOWNLOADS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_download_is_recognised(name, packed, tmp_path, capsys):
    files = files_of(name)
    path = zip_of(files, tmp_path / "d.zip") if packed else folder_of(files, tmp_path / "d")
    found = find_submissions(path)
    source = name.split()[0]
    count = len(DOWNLOADS[name])
    assert capsys.readouterr().out == f"source: {source}, {count} submissions\n"
    assert sorted(each.student for each in found) == sorted(DOWNLOADS[name].values())
    for each in found:
        [cell] = read_submission(each.read()).cells
        assert (cell.id, cell.source) == ("answer-1", "a = 1\na")
        assert "LATE" in each.path or not each.late


def test_a_folder_and_its_zip_give_the_same_ids(tmp_path):
    for name in DOWNLOADS:
        root = folder_of(files_of(name), tmp_path / name)
        packed = zip_of(files_of(name), tmp_path / f"{name}.zip")
        assert [each.id for each in find_submissions(root)] == [
            each.id for each in find_submissions(packed)
        ]


def test_ids_are_safe_and_unique(tmp_path):
    names = ["Ada.ipynb", "ada.ipynb", "Ädä.ipynb", "Ada\u200f.ipynb", "Ad a.ipynb", "=cmd().ipynb"]
    names += ["a,b\nc.ipynb", "...ipynb", "..ipynb", "\u202eadA.ipynb", "con.ipynb", "名.ipynb"]
    names += ["x" * 240 + ".ipynb"]
    found = find_submissions(folder_of(dict.fromkeys(names, ANSWER), tmp_path / "d"))
    assert len({each.id for each in found}) == len(names) == len(found)
    for each in found:
        assert set(each.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and len(each.id) < 60
        assert each.student.isprintable() and each.path.isprintable()
        assert read_submission(each.read())
    assert "ada-" in next(each.id for each in found if each.path == "Ada.ipynb")


def test_names_show_as_they_read():
    assert clean("\u202eevil\u200f \r\n =x\0\ud800") == "evil =x ?"
    assert clean("\u0645\u06cc\u200c\u062e") == "\u0645\u06cc\u200c\u062e"  # a joiner within a word


def test_a_source_is_named_over_what_is_found(tmp_path, capsys):
    root = folder_of(dict.fromkeys(PLAIN, ANSWER), tmp_path / "d")
    found = find_submissions(root, "moodle")
    line = "source: moodle, 2 submissions, 2 of them without a notebook to read\n"
    assert capsys.readouterr().out == line
    assert {reason(each) for each in found} == {
        "'jdoe.ipynb' is not named as moodle names what is handed in",
        "'whatever.ipynb' is not named as moodle names what is handed in",
    }
    with pytest.raises(BookError, match="SOURCE=blackboard: no such source; choose from: grade"):
        find_submissions(root, "blackboard")


def test_a_stray_file_among_many_is_a_row(tmp_path):
    files = dict.fromkeys([*CANVAS, "notes.ipynb"], ANSWER)
    faults = {each.path: each.fault for each in find_submissions(folder_of(files, tmp_path / "d"))}
    assert (
        faults.pop("notes.ipynb") == "'notes.ipynb' is not named as canvas names what is handed in"
    )
    assert set(faults.values()) == {None}


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: zip_of({}, path)])
def test_an_empty_download_is_an_error_in_one_line(make, tmp_path):
    make(tmp_path / "d")
    with pytest.raises(BookError, match=r"^\S+: holds no submission; name the folder or zip of a"):
        find_submissions(tmp_path / "d")


def test_what_is_no_download_is_an_error_in_one_line(tmp_path):
    with pytest.raises(BookError, match="no such file"):
        find_submissions(tmp_path / "d")
    (tmp_path / "d").write_text("hello")
    with pytest.raises(BookError, match="neither a folder nor a zip"):
        find_submissions(tmp_path / "d")


# --- several files of one student


def test_canvas_gives_the_newest(tmp_path):
    files = {f"doejane_1_{20 + n}_hw{end}.ipynb": b"" for n, end in enumerate(["", "-1", "-2"])}
    files["doejane_1_9_hw-3.ipynb"] = b""
    [found] = find_submissions(folder_of(files, tmp_path / "d"))
    assert found.path == "doejane_1_22_hw-2.ipynb" and found.fault is None


def test_the_exchange_gives_the_newest(tmp_path):
    times = ("2026-02-02 15:58:23.9 UTC", "2026-02-10 09:00:00.1 UTC", "2026-01-31 23:59:59.9 UTC")
    files = {f"jdoe+hw+{time}+r/hw{n}.ipynb": ANSWER for n, time in enumerate(times)}
    [found] = find_submissions(folder_of(files, tmp_path / "d"))
    assert found.path.endswith("hw1.ipynb") and found.fault is None


@pytest.mark.parametrize(
    "files",
    [
        ["Jane Doe_1_assignsubmission_file/a.ipynb", "Jane Doe_1_assignsubmission_file/b.ipynb"],
        ["jdoe/a.ipynb", "jdoe/sub/b.ipynb", "rroe/a.ipynb"],
        ["jdoe/hw/a.ipynb", "jdoe/hw/b.ipynb", "rroe/hw/a.ipynb"],
    ],
)
def test_two_notebooks_of_one_student_are_not_chosen_from(files, tmp_path):
    found = find_submissions(folder_of(dict.fromkeys(files, ANSWER), tmp_path / "d"))
    faults = [reason(each) for each in found if each.fault]
    assert faults == ["'a.ipynb' and 'b.ipynb' were handed in; keep one notebook"]


def test_two_files_of_one_student_on_canvas(tmp_path):
    files = dict.fromkeys(["doejane_1_20_a.ipynb", "doejane_1_21_b.ipynb", "d_2_3_c.csv"], ANSWER)
    jane, other = find_submissions(folder_of(files, tmp_path / "d"))[::-1]
    assert reason(jane).endswith("'doejane_1_21_b.ipynb' were handed in; keep one notebook")
    assert reason(other) == "'d_2_3_c.csv': no notebook, which ends in .ipynb"


def test_what_was_typed_into_canvas_is_no_notebook(tmp_path):
    files = dict.fromkeys([*CANVAS, "poe_LATE_7_text.html", "kant_8_link.html"], ANSWER)
    found = [each for each in find_submissions(folder_of(files, tmp_path / "d")) if each.fault]
    assert [(each.student, each.late) for each in found] == [
        ("kant (Canvas 8)", False),
        ("poe (Canvas 7)", True),
    ]
    assert reason(found[1]) == "'poe_LATE_7_text.html': no notebook, which ends in .ipynb"


def test_a_name_on_canvas_cannot_pass_for_another_id(tmp_path):
    """A student who is called 'x_340935' is not the student 340935."""
    files = [*CANVAS, "x_340935_340999_208490311_computing-devices.ipynb"]
    found = find_submissions(folder_of(dict.fromkeys(files, ANSWER), tmp_path / "d"))
    [odd] = [each for each in found if each.path.startswith("x_")]
    assert "is not named as canvas names" in reason(odd) and "(Canvas" not in odd.student


def test_two_assignments_of_one_student_are_two_submissions(tmp_path):
    files = dict.fromkeys(["jdoe/hw1/a.ipynb", "jdoe/hw2/a.ipynb", "rroe/hw1/a.ipynb"], ANSWER)
    found = find_submissions(folder_of(files, tmp_path / "d"))
    assert [(each.student, each.fault) for each in found] == [
        *[("jdoe", None)] * 2,
        ("rroe", None),
    ]


def test_what_lies_beside_a_notebook_is_left_alone(tmp_path):
    files = {f"{who}/{name}": b"x" for who in ("jdoe", "rroe") for name in ("a.png", "data.csv")}
    files |= {"jdoe/hw.ipynb": ANSWER, "rroe/.ipynb_checkpoints/hw-checkpoint.ipynb": ANSWER}
    files |= {"jdoe/__MACOSX/._hw.ipynb": b"", "jdoe/.DS_Store": b"", "__MACOSX/._jdoe": b""}
    jane, richard = find_submissions(folder_of(files, tmp_path / "d"))
    assert jane.fault is None
    assert reason(richard) == "'a.png' and 'data.csv': no notebook, which ends in .ipynb"


# --- files that must not be read


def test_a_large_file_is_refused_unread(tmp_path):
    root = folder_of({"rroe.ipynb": ANSWER}, tmp_path / "d")
    with open(root / "jdoe.ipynb", "wb") as file:
        file.truncate(500_000_000)  # a sparse file: reading it would cost half a GB
    jane, richard = find_submissions(root)
    assert jane.fault == "'jdoe.ipynb' has 500 MB; the limit is 20 MB"
    assert reason(jane) and richard.fault is None


def test_a_file_that_grew_is_refused(tmp_path):
    root = folder_of({"jdoe.ipynb": ANSWER}, tmp_path / "d")
    [found] = find_submissions(root)
    with open(root / "jdoe.ipynb", "wb") as file:
        file.truncate(500_000_000)
    assert reason(found) == "'jdoe.ipynb' has 21 MB; the limit is 20 MB"


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
def test_links_pipes_and_devices_are_not_followed(tmp_path):
    root = folder_of({"good.ipynb": ANSWER, "../secret.ipynb": ANSWER}, tmp_path / "d")
    (root / "link.ipynb").symlink_to("/etc/passwd")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "zero.ipynb").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe.ipynb")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.ipynb"))
        found = {each.student: each for each in find_submissions(root)}
        assert found.pop("good").fault is None
        assert set(found) == {"link", "folder", "loop", "zero", "pipe", "s"}
        for each in found.values():
            assert " is a link; " in reason(each) or " is no file: " in reason(each)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes as POSIX has them")
@pytest.mark.parametrize("swap", ["link", "pipe", "gone"])
def test_a_file_that_was_swapped_is_refused(swap, tmp_path):
    """Between the list and the reading: no link is followed, and no pipe is waited for."""
    root = folder_of({"jdoe.ipynb": ANSWER}, tmp_path / "d")
    [found] = find_submissions(root)
    path = root / "jdoe.ipynb"
    path.unlink()
    if swap == "link":
        path.symlink_to("/etc/passwd")
    elif swap == "pipe":
        os.mkfifo(path)
    assert "cannot be read" in reason(found) or "is a device or a pipe" in reason(found)


CLIMBING = ["../x.ipynb", "a/../../x.ipynb", "/etc/x.ipynb", "C:\\x.ipynb", "..\\x.ipynb"]


@pytest.mark.parametrize("name", CLIMBING)
def test_a_member_that_climbs_out_is_a_row_and_stops_nothing(name, tmp_path):
    path = zip_of(
        {member(name): ANSWER, "jdoe.ipynb": ANSWER, "rroe.ipynb": ANSWER}, tmp_path / "d"
    )
    bad, *good = sorted(find_submissions(path), key=lambda each: each.fault is None)
    assert "climbs out of its zip" in reason(bad)
    assert [each.student for each in good] == ["jdoe", "rroe"]
    assert all(read_submission(each.read()) for each in good)
    assert not (tmp_path.parent / "x.ipynb").exists()


def bomb(size=500_000_000):
    """A zip of a few hundred kB whose one member has `size` bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("hw.ipynb", "w") as file:
            for _ in range(size // 1_000_000):
                file.write(bytes(1_000_000))
    return made.getvalue()


@pytest.fixture(scope="module")
def bombs():
    return bomb()


def lying(data, size=1000):
    """The zip with another size in its table of contents and before its member."""
    at, local = data.rindex(b"PK\1\2"), data.index(b"PK\3\4")
    changed = bytearray(data)
    struct.pack_into("<I", changed, at + 24, size)
    struct.pack_into("<I", changed, local + 22, size)
    return bytes(changed)


def many(count):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.txt", b"")
    return made.getvalue()


def encrypted():
    data = bytearray(zip_of({"hw.ipynb": ANSWER}))
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


def packed_with(method):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("hw.ipynb", ANSWER)
    return made.getvalue()


def handed_in(data):
    """The zips that a student may hand in, and what each gets."""
    return {
        "bomb": (data, "unpacks to 500 MB; the limit is 100 MB"),
        "large": (bomb(60 * 1_000_000), "holds 'hw.ipynb', which has 60 MB; the limit is 20 MB"),
        "lying": (lying(data), "is damaged in its zip; zip it again"),
        "many": (many(1001), "holds more than 1000 files; zip the notebook alone"),
        "climbing": (zip_of({member("../hw.ipynb"): ANSWER}), "holds '../hw.ipynb', which climbs"),
        "link": (zip_of({member("hw.ipynb", stat.S_IFLNK): b"/etc/passwd"}), "which is a link"),
        "pipe": (zip_of({member("hw.ipynb", stat.S_IFIFO): b""}), "which is a device or a pipe"),
        "encrypted": (encrypted(), "which is encrypted; zip it without a password"),
        "bzip2": (packed_with(zipfile.ZIP_BZIP2), "is compressed in an unusual way"),
        "lzma": (packed_with(zipfile.ZIP_LZMA), "is compressed in an unusual way"),
        "nothing": (zip_of({}), "holds no notebook: no file that ends in .ipynb"),
        "no notebook": (zip_of({"hw.pdf": b"%PDF"}), "holds no notebook"),
        "two": (zip_of({"a.ipynb": ANSWER, "b.ipynb": ANSWER}), "holds 'a.ipynb' and 'b.ipynb'"),
        "zip in zip": (zip_of({"hw.zip": zip_of({"hw.ipynb": ANSWER})}), "holds no notebook"),
        "cut short": (zip_of({"hw.ipynb": ANSWER})[:-30], "is no zip that can be read"),
        "no zip": (b"Rar!", "is no zip that can be read; zip it again"),
        "damaged": (zip_of({"hw.ipynb": ANSWER}).replace(b"PK\3\4", b"PK\3\5"), "is damaged"),
    }


@pytest.mark.parametrize("outer", ["folder", "zip"])
def test_a_zip_that_is_handed_in_is_opened_one_level_or_refused(outer, bombs, tmp_path):
    zips = handed_in(bombs)
    files = {f"{name}.zip": data for name, (data, _) in zips.items()}
    inner = zip_of({"work/hw.ipynb": ANSWER, "work/a.png": b"", "__MACOSX/work/._hw.ipynb": b""})
    files["good.zip"] = inner
    path = tmp_path / "d"
    found = find_submissions(folder_of(files, path) if outer == "folder" else zip_of(files, path))
    reasons = {each.student: reason(each) for each in found if each.student != "good"}
    assert reasons.keys() == zips.keys()
    for name, (_, expected) in zips.items():
        assert expected in reasons[name] and reasons[name].startswith(f"'{name}.zip' ")
    [good] = [each for each in found if each.student == "good"]
    assert read_submission(good.read()).cells[0].id == "answer-1"


def test_members_of_the_download_are_bounded(bombs, tmp_path):
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rroe.ipynb", ANSWER)
        with archive.open("jdoe.ipynb", "w") as file:
            for _ in range(30):
                file.write(bytes(1_000_000))
    jane, richard = find_submissions(tmp_path / "d.zip")
    assert jane.fault == "'jdoe.ipynb' has 30 MB; the limit is 20 MB" and richard.fault is None
    (tmp_path / "lying.zip").write_bytes(lying(bombs))
    [found] = find_submissions(tmp_path / "lying.zip")
    assert reason(found) == "'hw.ipynb' is damaged in its zip; zip it again"


def test_without_its_limit_a_zip_would_unpack(monkeypatch):
    """The bite: what the limits of a student's zip hold back."""
    data = bomb(60 * 1_000_000)
    with pytest.raises(Refused):
        intake.notebook_in_zip(data)
    monkeypatch.setattr(intake, "LIMIT", 100 * 1_000_000)
    assert len(intake.notebook_in_zip(data)) == 60 * 1_000_000


def test_names_in_a_zip_that_does_not_say_its_encoding(tmp_path):
    info = member("Zoë.ipynb")
    path = zip_of({info: ANSWER}, tmp_path / "d.zip")
    data = path.read_bytes()
    for start, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = data.index(start) + offset
        flags = struct.unpack_from("<H", data, at)[0] & ~0x800
        data = data[:at] + struct.pack("<H", flags) + data[at + 2 :]
    path.write_bytes(data)
    assert [each.student for each in find_submissions(path)] == ["Zoë"]


def test_metadata_of_gradescope_that_cannot_be_read_name_nobody(tmp_path):
    for number, text in enumerate([b"- [", b"a: &a [*a]", b"\xff\xfe", b"!!python/object:os.x {}"]):
        files = files_of("gradescope") | {"assignment_123_export/submission_metadata.yml": text}
        found = find_submissions(folder_of(files, tmp_path / str(number)))
        assert [each.student for each in found] == [f"submission_{n}" for n in (456, 457, 458)]


def test_nobody_can_hand_in_who_they_are(tmp_path):
    files = files_of("gradescope")
    mine = b"submission_458:\n  :submitters:\n  - :name: Jane Doe\n    :sid: s1001\n"
    files["assignment_123_export/submission_456/submission_metadata.yml"] = mine
    files["assignment_123_export/submission_458/submission_metadata.yml"] = mine
    found = find_submissions(folder_of(files, tmp_path / "d"))
    assert sorted(each.student for each in found) == sorted(GRADESCOPE.values())
    names = ["Eve (Canvas 340934).ipynb", "Eve; doe (Moodle 7).ipynb", "Max; Eve (s1001).ipynb"]
    found = find_submissions(folder_of(dict.fromkeys(names, ANSWER), tmp_path / "e"))
    assert [each.student for each in found] == [
        *("Eve [Canvas 340934]", "Eve, doe [Moodle 7]", "Max, Eve [s1001]"),
    ]


def test_the_most_of_the_names_decide():
    def kinds(*names):
        entries = [intake.Entry(tuple(name.split("/")), bytes) for name in names]
        return recognised(entries, list(intake.SOURCES))[0]

    assert kinds("doe_1_2_a.ipynb", "doe_2_3_a.ipynb", "x.ipynb") == "canvas"
    assert kinds("doe_1_2_a.ipynb", "x.ipynb", "y.ipynb") == "plain"
    assert kinds("d/doe_1_2_a.ipynb") == "canvas"
    assert kinds("ada/hw.ipynb") == "plain"


# --- what is in the file

BAD = {
    b"": "the file is no notebook: empty; save it and hand it in again",
    b"  \n": "empty",
    ANSWER[:-20]: "its JSON ends or errs in line 1",
    b"\x80abc": "not UTF-8",
    b"%PDF-1.4": "its JSON ends or errs",
    b"[]": "it names no nbformat",
    b"{}": "it names no nbformat",
    b'"nbformat"': "it names no nbformat",
    b"[" * 100_000: "lists in lists without end",
    b'{"a":' * 100_000: "lists in lists without end",
    b'{"nbformat": ' + b"9" * 5000 + b"}": "its JSON ends or errs",
    notebook(nbformat=3): "the file is in format 3, of before 2015; open it in JupyterLab",
    notebook(nbformat="4"): "it names no nbformat",
    notebook(nbformat=5): "in a format that is not known here; the formats 4.0 to 4.5 are",
    notebook(nbformat_minor=6): "not known here",
    notebook(nbformat_minor="x"): "not known here",
    notebook(cells=None): "it has no list of cells",
    notebook(cells={"a": 1}): "it has no list of cells",
    notebook(cells=["x"]): "cell 1 is none",
    notebook(cells=[{"cell_type": "code"}]): "cell 1 is none",
    notebook(cells=[{"cell_type": "code", "source": 3}]): "cell 1 is none",
    notebook(cells=[{"cell_type": "code", "source": [None]}]): "cell 1 is none",
    notebook(cells=[{"cell_type": "heading", "source": "x"}]): "cell 1 is none",
    notebook(metadata={"kernelspec": {"language": "R"}}): "in 'r'; the answers are asked for in",
    notebook(metadata={"kernelspec": {"name": "ir"}}): "in 'r'",
    notebook(metadata={"language_info": {"name": "julia"}}): "in 'julia'",
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
        {"kernelspec": {"name": "python3", "language": "python"}},
        {"kernelspec": {"name": "my-env"}, "language_info": {"name": "python", "version": "3"}},
        {"kernelspec": {"name": "conda-env-r-py"}},
        {"accelerator": "GPU", "colab": {"provenance": []}},
        {"kernelspec": None, "language_info": []},
    ],
)
@pytest.mark.parametrize("minor", range(6))
def test_notebooks_of_every_service_are_read(metadata, minor):
    data = b"\xef\xbb\xbf" + notebook(metadata=metadata, nbformat_minor=minor)
    assert read_submission(data).nbformat_minor == minor


def test_cells_come_as_they_were_handed_in():
    cells = [
        {"cell_type": "code", "id": "answer-1", "source": "a\ud800", "outputs": [{"x": 1}]},
        {"cell_type": "code", "id": "answer-1", "source": ["b\n", "c"], "metadata": {"tags": []}},
        {"cell_type": "raw", "id": 7, "source": "", "metadata": None},
    ]
    read = read_submission(notebook(cells=cells)).cells
    assert [dict(each) for each in read] == [
        {"cell_type": "code", "source": "a?", "metadata": {}, "id": "answer-1"},
        {"cell_type": "code", "source": "b\nc", "metadata": {"tags": []}, "id": "answer-1"},
        {"cell_type": "raw", "source": "", "metadata": {}},
    ]


def test_the_limit_is_the_one_that_is_said():
    assert LIMIT == 20_000_000
