"""Files are written whole or not at all; what keeps them from being written is one line."""

from pathlib import Path

import pytest
from helpers import code, contents, notebook, refused

from tools.book.notebooks import write_notebook


def half(path, data):
    """What `Path.write_bytes` does on a disk that fills up."""
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
    raise OSError(28, "No space left on device")


def never(path, target):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize(
    ("step", "failure", "reason"),
    [("write_bytes", half, "No space left on device"), ("replace", never, "Permission denied")],
)
def test_failed_write_leaves_the_old_file_and_no_part(tmp_path, monkeypatch, step, failure, reason):
    path = tmp_path / "a.ipynb"
    write_notebook(notebook(code("a", "1")), path, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(Path, step, failure)
    with refused(f"a.ipynb: cannot be written ({reason}); make room"):
        write_notebook(notebook(code("a", "2")), path, tmp_path)
    assert contents(tmp_path) == before
