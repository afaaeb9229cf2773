"""Files that a download may hold: what is no file is not read, and a zip is opened."""

import os
import socket
import stat
import struct
import sys
import zipfile

import pytest
from downloads import (
    ANSWER,
    assert_is_read,
    by_student,
    find_in_zip,
    folder_of,
    member,
    reason,
    right_answers,
    zipped,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="grading needs Linux")

# Words of the refusal by student.
NOT_READ = {
    "large": "'large.ipynb' has 500 MB; the limit is 20 MB",
    # No more of it was read.
    "grew": "'grew.ipynb' has 21 MB; the limit is 20 MB",
    # It was read, as it is just within the limit.
    "longest": "the file is not a notebook",
    "now-a-link": "cannot be read",
    # Nobody waited for it.
    "now-a-pipe": "it is empty",
    "link": " is a link; ",
    "loop": " is a link; ",
    "pipe": " is not a file: ",
    "s": " is not a file: ",
    "deep": " is not a file: ",
}


def write_odd_files(root):
    names = ["good", "grew", "now-a-link", "now-a-pipe", "large", "longest"]
    names += ["../secret", "deep/" * 21 + "a"]
    folder_of(right_answers(f"{name}.ipynb" for name in names), root)
    os.truncate(root / "longest.ipynb", 0)
    os.truncate(root / "longest.ipynb", 20_000_000)
    # It is sparse: only reading it would cost half a gigabyte.
    os.truncate(root / "large.ipynb", 500_000_000)
    (root / "link.ipynb").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "pipe.ipynb")


def change_files(root):
    """Change files between the time when they are listed and when they are read."""
    os.truncate(root / "grew.ipynb", 500_000_000)
    (root / "now-a-link.ipynb").unlink()
    (root / "now-a-link.ipynb").symlink_to("/etc/passwd")
    (root / "now-a-pipe.ipynb").unlink()
    os.mkfifo(root / "now-a-pipe.ipynb")


def test_a_large_or_odd_file_is_not_read(tmp_path):
    root = tmp_path / "d"
    write_odd_files(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "s.ipynb"))
        submission_of = by_student(root)
    change_files(root)

    assert_is_read(submission_of.pop("good"))
    assert submission_of.keys() == NOT_READ.keys()
    for name, words in NOT_READ.items():
        assert words in reason(submission_of[name]), name


# The signatures of a zip: of a member in the table of contents, and of its own header.
TABLE = b"PK\1\2"
HEADER = b"PK\3\4"
GOOD_ZIP = zipped({"hw.ipynb": ANSWER})
LARGE_ZIP = zipped({"hw.ipynb": bytes(21_000_000)})


def overwritten(data, signature, form, offset, value):
    """Return a zip with a value packed at an offset from the first such signature."""
    changed = bytearray(data)
    struct.pack_into(form, changed, data.index(signature) + offset, value)
    return bytes(changed)


def zip_with_small_sizes():
    """Return the large zip, which gives a size of 1000 bytes."""
    data = overwritten(LARGE_ZIP, TABLE, "<I", 24, 1000)
    return overwritten(data, HEADER, "<I", 22, 1000)


def zip_with_encrypted_flag():
    data = overwritten(GOOD_ZIP, TABLE, "<H", 8, 1)
    return overwritten(data, HEADER, "<H", 6, 1)


# A zip, and words of the refusal.
BAD_ZIPS = {
    "large": (LARGE_ZIP, "has 21 MB; the limit is 20 MB"),
    "lying": (
        zip_with_small_sizes(),
        "cannot be read (Bad CRC-32 for file 'hw.ipynb'); hand it in again",
    ),
    "link": (
        zipped({member("hw.ipynb", stat.S_IFLNK): b"/etc/passwd"}),
        "is a link; hand in",
    ),
    "pipe": (
        zipped({member("hw.ipynb", stat.S_IFIFO): b""}),
        "is not a file: a device, a pipe",
    ),
    "encrypted": (zip_with_encrypted_flag(), "is encrypted"),
    "two": (
        zipped(right_answers(["a.ipynb", "b.ipynb"])),
        "holds 2 files that end in .ipynb",
    ),
    "cut short": (GOOD_ZIP[:-30], "is not a zip that can be read; zip it again"),
    "garbled": (
        overwritten(GOOD_ZIP, HEADER, "<H", 38, 0xFFFF),
        "cannot be read (Error -3 while",
    ),
}


@pytest.mark.parametrize("name", BAD_ZIPS)
def test_a_zip_with_a_fault_is_refused(name, tmp_path):
    data, words = BAD_ZIPS[name]
    [submission] = find_in_zip({f"{name}.zip": data}, tmp_path, "plain")
    assert submission.student == name
    text = reason(submission)
    assert text.startswith(f"'{name}.zip' ")
    assert words in text


def test_a_zip_that_is_handed_in_is_opened(tmp_path):
    work = {
        "work/hw.ipynb": ANSWER,
        "work/a.png": b"",
        "__MACOSX/work/._hw.ipynb": b"",
    }
    files = {
        "CAPITALS.ZIP": zipped({"HW.IPYNB": ANSWER}),
        "good.zip": zipped(work),
        "bzip2.zip": zipped(work, method=zipfile.ZIP_BZIP2),
    }
    submissions = find_in_zip(files, tmp_path)
    students = {submission.student for submission in submissions}
    assert students == {"CAPITALS", "good", "bzip2"}
    for submission in submissions:
        assert_is_read(submission)


def test_names_in_a_zip_lead_nowhere(tmp_path):
    climbing = ["../x.ipynb", "/etc/y.ipynb", "C:\\z.ipynb", "..\\..\\w.ipynb"]
    files = {member(name): ANSWER for name in climbing}
    submissions = find_in_zip(files, tmp_path, "plain")
    students = {submission.student for submission in submissions}
    assert students == {"x", "etc", "C:", "w"}
    for submission in submissions:
        assert_is_read(submission)


def test_a_large_notebook_in_a_zip_is_refused(tmp_path):
    [submission] = find_in_zip({"jdoe.ipynb": bytes(30_000_000)}, tmp_path)
    assert submission.fault == "'jdoe.ipynb' has 30 MB; the limit is 20 MB"


@pytest.mark.parametrize("name", ["Zoë".encode(), b"Zo\x89"], ids=["macOS", "Windows"])
def test_names_in_a_zip_that_does_not_say_its_encoding(name, tmp_path):
    path = tmp_path / "d.zip"
    stand_in = "x" * len(name)
    data = zipped({f"{stand_in}.ipynb": ANSWER})
    path.write_bytes(data.replace(stand_in.encode(), name))
    assert by_student(path).keys() == {"Zoë"}
