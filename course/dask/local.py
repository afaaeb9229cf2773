"""A Dask cluster on this machine, to try `make grade DASK=...` without one.

    .venv/bin/python course/dask/local.py [WORKERS]

It prints the address to give, and lasts until Ctrl-C.
"""

import contextlib
import os
import signal
import sys

from distributed import LocalCluster


def main() -> None:
    """Start the workers, and wait."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else os.cpu_count()
    # One thread each: a worker has one sandbox. Each takes about 400 MB, PyTorch among it.
    with LocalCluster(
        n_workers=count, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        print(f"make grade DASK={cluster.scheduler_address} ...", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
