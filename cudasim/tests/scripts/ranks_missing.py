"""Rank 0 waits for rank 1, which comes late or has ended.

Arguments: `(late | ended) (collective | recv) [bound]`.
"""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import join, rank, report

late = sys.argv[1] == "late"
receives = sys.argv[2] == "recv"
reported = Path("reported")


def wait_for_the_other():
    if receives:
        dist.recv(x, 1)
    else:
        dist.all_reduce(x)


seconds = 2 if late else 100
options = {"device_id": torch.device("cuda", rank)} if "bound" in sys.argv else {}
gpu = join(timeout=timedelta(seconds=seconds), **options)
x = torch.ones(4, device=gpu)
dist.all_reduce(x)

if rank == 0:
    report("waits", wait_for_the_other)
    reported.touch()
    sys.exit(3)
elif late:
    last = time.monotonic() + 2 * seconds  # the other may be ended by its watchdog
    while not reported.exists() and time.monotonic() < last:
        time.sleep(0.1)
else:
    os._exit(0)
