"""Dask workers as jobs of a Slurm cluster: edit the settings, then, on a login node,

    pip install dask-jobqueue==0.9.0    # into the environment that has this book's pins
    python course/dask/slurm.py

It prints the address for `make grade DASK=...`, which runs on the same node, in another terminal.
Jobs come and go with the work, and end with Ctrl-C.
"""

import contextlib
import signal
import sys

from dask_jobqueue import SLURMCluster

MOST = 32  # jobs at a time
SETTINGS = {
    "queue": "normal",  # of `sinfo`; some clusters want "account" as well
    "cores": 1,  # a worker grades one submission at a time ...
    "processes": 1,
    "memory": "4GiB",  # ... which may take 2 GiB, beside 1 GiB for PyTorch and the grader
    "walltime": "01:00:00",
    "python": sys.executable,  # must be readable from every node, by every user
    "local_directory": "/tmp",  # of the node; sandboxes cannot enter a home of mode 0700
    # A worker leaves before its hour ends; submissions under way go to another one.
    "worker_extra_args": ["--lifetime", "50m", "--lifetime-stagger", "5m"],
    "job_script_prologue": ["umask 022"],
}


def make_cluster() -> SLURMCluster:
    """The cluster, as yet without jobs."""
    return SLURMCluster(**SETTINGS)


def main() -> None:
    """Ask Slurm for workers as there is work, and wait."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    with make_cluster() as cluster:
        print(cluster.job_script())
        cluster.adapt(minimum_jobs=1, maximum_jobs=MOST)
        print(f"make grade DASK={cluster.scheduler_address} ...", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
