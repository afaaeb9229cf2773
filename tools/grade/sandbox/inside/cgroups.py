"""Control groups, where this process may make them: memory and processes of a session counted
by the kernel, shared memory included. Version 1 has a tree for each controller, version 2 one.
"""

import contextlib
import os
import time
from pathlib import Path

MIB = 1 << 20


def make(process: int, memory: int, threads: int) -> list[str]:
    """Put a process into cgroups of its own, with limits; those that could be made."""
    made = []
    for controller, folder in parents().items():
        sweep(folder)
        group = folder / f"sandbox-{os.getpid()}-{process}"
        wanted = {
            "memory": {
                "memory.limit_in_bytes": memory * MIB,
                "memory.max": memory * MIB,
                "memory.swap.max": 0,
            },
            "pids": {"pids.max": threads},
        }
        try:
            group.mkdir()
        except OSError:
            continue
        made.append(str(group))
        limits = wanted["memory"] | wanted["pids"] if controller == "" else wanted[controller]
        present = {name: value for name, value in limits.items() if (group / name).exists()}
        try:
            for name, value in present.items():
                (group / name).write_text(str(value))
            if not present:
                raise OSError
            (group / "cgroup.procs").write_text(str(process))
        except OSError:
            group.rmdir()
            made.pop()
    return made


def sweep(folder: Path) -> None:
    """Remove the cgroups of those that were killed before they could."""
    for group in folder.glob("sandbox-*"):
        if not Path("/proc", group.name.split("-")[1]).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def parents() -> dict[str, Path]:
    """{controller: the folder of this process's own cgroup}; version 2 is called ''."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return {}
    own = {}
    for line in lines:
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            own[name] = path
    found = {}
    for _, place, kind, options, *_ in mounts:
        for name in ("memory", "pids") if kind == "cgroup" else [""] if kind == "cgroup2" else []:
            if name in own and (not name or name in options.split(",")):
                folder = Path(place + own[name])
                if os.access(folder, os.W_OK):
                    found[name] = folder
    return found


def killed(groups: list[str]) -> bool:
    """True if the kernel killed a process of these for want of memory."""
    for group in groups:
        for name in ("memory.oom_control", "memory.events"):
            try:
                words = Path(group, name).read_text().split()
            except OSError:
                continue
            if dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", "0") != "0":
                return True
    return False


def remove(groups: list[str]) -> None:
    """Remove cgroups whose processes are gone; the kernel needs a moment."""
    for group in groups:
        for _ in range(100):
            try:
                os.rmdir(group)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
            else:
                break
