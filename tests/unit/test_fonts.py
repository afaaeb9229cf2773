"""Fonts are cut from pinned packages, and nothing else; what is cut has no foreign name."""

import hashlib
import io
import tarfile

import pytest
from fontTools.ttLib import TTFont
from helpers import ROOT

from tools.errors import BookError
from tools.site import fonts

CUT = sorted((ROOT / "book" / "static" / "fonts").glob("*.woff2"))


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one file, in the place where it would be kept when fetched."""
    path = tmp_path / "_build" / "npm" / "someone-letters-1.0.tgz"
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("package/LICENSE")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"free"))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setitem(fonts.PACKAGES, "@someone/letters", ("1.0", digest))
    return path


def test_a_file_of_a_pinned_package_is_read(package, tmp_path):
    assert fonts.read_member("@someone/letters", "LICENSE", tmp_path) == b"free"


def test_a_package_that_is_another_or_cannot_be_fetched_is_reported(package, tmp_path, monkeypatch):
    package.write_bytes(b"something else")
    with pytest.raises(BookError, match=r"^_build/npm/someone-letters-1.0.tgz: .*delete it"):
        fonts.read_member("@someone/letters", "LICENSE", tmp_path)
    package.unlink()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BookError, match=r"^_build/npm/someone-letters-1.0.tgz: .*install npm"):
        fonts.read_member("@someone/letters", "LICENSE", tmp_path)


def test_ranges_are_read_as_css_writes_them():
    assert fonts.characters("U+0041-0043, U+20AC") == {0x41, 0x42, 0x43, 0x20AC}


@pytest.mark.parametrize("path", CUT, ids=lambda path: path.stem)
def test_a_font_has_its_licence_but_not_the_reserved_name(path):
    font = TTFont(path)
    names = {record.nameID: str(record) for record in font["name"].names}
    assert "Adobe" in names[0] and "Open Font License" in names[13]
    assert all("Source" not in names.get(number, "") for number in (1, 2, 3, 4, 6, 16, 25))
    assert "fpgm" not in font  # no hints
