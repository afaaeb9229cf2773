"""Zip archives whose bytes depend on their files alone."""

import io
from collections.abc import Mapping
from zipfile import ZipFile, ZipInfo

UNIX, PLAIN, READ = 3, 0o100000, 0o644  # a plain file that its owner writes and all read


def zipped(files: dict[str, bytes], modes: Mapping[str, int] | None = None) -> bytes:
    """An archive of files by path, the same bytes everywhere; `modes` are rights that differ."""
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        for name, data in sorted(files.items()):
            entry = ZipInfo(name)  # of the first day of 1980
            entry.create_system = UNIX
            entry.external_attr = (PLAIN | (modes or {}).get(name, READ)) << 16
            archive.writestr(entry, data)
    return made.getvalue()
