"""train.py lets go of its process group: no thread of gloo is left that could abort its end.

Such a thread aborts a process only now and then (https://github.com/pytorch/pytorch/issues/190489),
so the threads are counted, not the aborts.
"""

import os
import re

import pytest
from launch import CUDASIM, TRAIN, TWO

COUNT = """\
import atexit, os

def tell():
    tasks = os.listdir("/proc/self/task")
    names = [open(f"/proc/self/task/{task}/comm").read() for task in tasks]
    left = sum("gloo_runloop" in name for name in names)
    os.write(1, f"rank {os.environ['RANK']} ends with {left} threads\\n".encode())

if "RANK" in os.environ:
    atexit.register(tell)
"""


def threads_at_the_end(job, script):
    """How many threads of gloo each of two ranks still has when Python ends."""
    (job.folder / "sitecustomize.py").write_text(COUNT)
    path = [CUDASIM / "cudasim" / "inherit", CUDASIM, job.folder]
    path = os.pathsep.join(map(str, path))
    job.torchrun(*TWO, script, "--epochs", 1, PYTHONPATH=path)
    code, said = job.end()
    assert code == 0, said
    return sorted(re.findall(r"rank \d ends with \d threads", said))


def test_no_thread_of_gloo_is_left(job, machine):
    job.machine = machine
    none = ["rank 0 ends with 0 threads", "rank 1 ends with 0 threads"]
    assert threads_at_the_end(job, TRAIN) == none


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("del model", "pass"),
        ("import torch.distributed.nn ", "import torch "),
    ],
)
def test_a_group_that_is_held_is_noticed(job, old, new):
    text = TRAIN.read_text(encoding="utf-8")
    assert text.count(old) == 1
    script = job.folder / "train.py"
    script.write_text(text.replace(old, new), encoding="utf-8")
    left = threads_at_the_end(job, script)
    assert len(left) == 2 and not any("with 0 threads" in line for line in left)
