"""Whether a session has more files than it may, seen from outside."""

import os
import stat

MIB = 1 << 20
FILES = 4096


def too_many_in_tmpfs(pid: int) -> bool:
    """True if the session's /tmp, whose size the kernel limits, holds too many files."""
    try:
        about = os.statvfs(f"/proc/{pid}/root/tmp")
    except OSError:
        return False
    return about.f_files - about.f_ffree > FILES


def too_many_below(folder: str, pid: int, most: int) -> bool:
    """True if `folder` holds more than `most` MiB or too many files.

    Files that were removed and are still open or mapped count, too.
    """
    sizes: dict[tuple[int, int], int] = {}
    left = [folder]
    try:
        while left:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    sizes[about.st_dev, about.st_ino] = about.st_blocks * 512
                    if stat.S_ISDIR(about.st_mode):
                        left.append(entry.path)
                    if len(sizes) > FILES:
                        return True
    except FileNotFoundError:
        pass  # removed meanwhile
    except OSError:
        return True  # so deep that it has no name, or closed to us
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            about = os.stat(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if stat.S_ISREG(about.st_mode):
            sizes[about.st_dev, about.st_ino] = about.st_blocks * 512
    return sum(sizes.values()) > most * MIB or removed_but_mapped(folder, pid)


def removed_but_mapped(folder: str, pid: int) -> bool:
    """True if memory holds a file of `folder` that has no name any more."""
    with open(f"/proc/{pid}/maps", errors="replace") as maps:
        return any(folder in line and line.rstrip().endswith("(deleted)") for line in maps)
