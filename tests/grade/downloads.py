"""Downloads of what students handed in, as folders and as zips."""

import io
import json
import stat
import zipfile

import pytest

from coursework.grade.download import Refused
from coursework.grade.intake import find_submissions
from coursework.grade.reading import read_submission

CELL = {
    "cell_type": "code",
    "id": "answer-1",
    "metadata": {},
    "source": ["a = 1\n", "a"],
}
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [CELL]}
ANSWER = json.dumps(NOTEBOOK).encode()


def right_answers(names):
    """Return files of these names, each a notebook with an answer."""
    return dict.fromkeys(names, ANSWER)


def folder_of(files, root):
    """Write files with their data into a folder, and return the folder."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def zip_of(files, path, method=zipfile.ZIP_DEFLATED):
    """Write a zip of names or ZipInfos with their data; `path` may be a file."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def zipped(files, method=zipfile.ZIP_DEFLATED):
    """Return the bytes of a zip."""
    return zip_of(files, io.BytesIO(), method).getvalue()


def find_in_zip(files, folder, source=None):
    """Return the submissions in a zip of these files, which is written into a folder."""
    return find_submissions(zip_of(files, folder / "download.zip"), source)


def member(name, mode=stat.S_IFREG | 0o644):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def by_student(download, source=None):
    submissions = find_submissions(download, source)
    return {submission.student: submission for submission in submissions}


def reason(submission):
    """Return why a submission is refused, when it is listed or when it is read."""
    with pytest.raises(Refused) as refusal:
        read_submission(submission.read())
    text = str(refusal.value)
    assert text.isprintable(), text
    return text


def assert_is_read(submission):
    [cell] = read_submission(submission.read()).cells
    assert cell.id == "answer-1"
    assert cell.source == "a = 1\na"
