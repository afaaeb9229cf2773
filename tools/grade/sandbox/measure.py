"""What a session costs: `python -m tools.grade.sandbox.measure`, and rows for `make bench`."""

import os
import statistics
import time
from pathlib import Path

from tools.grade.sandbox.tier import Tier, close, tiers

RUNS = 9
FIRST = "import torch\ntorch.ones(2, device='cuda').sum()"  # without it, a session is not ready
COMMAND = "python -m tools.grade.sandbox.measure"


def measure_sessions() -> list[dict]:
    """Seconds from cold and warm, of wall and of processor, and the memory of a worker, by tier.

    A session here begins, computes one sum on a simulated GPU, and ends.
    """
    rows = []

    def add(what: str, value: float, unit: str, aim: str = "") -> None:
        rows.append({"what": what, "value": value, "unit": unit, "aim": aim, "command": COMMAND})

    for tier in tiers():
        close()
        cold, _ = _session(tier)
        add(f"First submission of a worker, sandbox {tier.name}", round(cold, 2), "s", "2.5 s")
        runs = [_session(tier) for _ in range(RUNS)]
        wall = statistics.median(seconds for seconds, _ in runs)
        add(f"Each further submission, sandbox {tier.name}", round(wall, 3), "s", "0.3 s")
        used = statistics.median(processor for _, processor in runs)
        add(f"Its processor time, sandbox {tier.name}", round(used, 3), "s")
        add(f"Memory of a worker's helper, sandbox {tier.name}", _memory(tier), "MiB")
    close()
    return rows


def _session(tier: Tier) -> tuple[float, float]:
    """(seconds of wall, seconds of processor of judge, helper and session)."""
    start, own = time.perf_counter(), time.process_time()
    with tier.session() as session:
        session.run(FIRST)
        helper = session.place.pid
        before = _processor(helper)
    children = _processor(helper) - before
    return time.perf_counter() - start, time.process_time() - own + children


def _processor(pid: int) -> float:
    """Seconds of a process and of its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def _memory(tier: Tier) -> int:
    with tier.session() as session:
        text = Path(f"/proc/{session.place.pid}/status").read_text()
    return round(int(text.split("VmRSS:")[1].split()[0]) / 1024)


if __name__ == "__main__":
    for row in measure_sessions():
        aim = f" (aim: {row['aim']})" if row["aim"] else ""
        print(f"{row['what']}: {row['value']} {row['unit']}{aim}")
