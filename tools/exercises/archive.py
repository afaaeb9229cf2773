"""Zip archives whose bytes depend on their files alone."""

import io
from collections.abc import Mapping
from zipfile import ZipFile, ZipInfo

DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold
UNIX, PLAIN, READ = 3, 0o100000, 0o644  # a plain file that its owner writes and all read


def zipped(files: dict[str, bytes], modes: Mapping[str, int] | None = None) -> bytes:
    """An archive of files by path: the same bytes on every machine, as nothing is compressed.

    `modes` are the rights of those that others than their owner do not read, or may execute.
    """
    made = io.BytesIO()
    with ZipFile(made, "w") as archive:
        for name in sorted(files):
            entry = ZipInfo(name, DATE)
            mode = PLAIN | (modes or {}).get(name, READ)
            entry.create_system, entry.external_attr = UNIX, mode << 16
            archive.writestr(entry, files[name])
    return made.getvalue()
