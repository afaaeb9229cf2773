# ruff: noqa: F401
"""Runs students' cells where they can do no harm, with the judge outside.

    with Tier("bubblewrap").session(memory=1024) as session:
        session.run("x = 1")                       # a cell: None, or the name of its error
        session.ask("x + n", {"n": 2}, seconds=5)  # data: 3

A helper with PyTorch loaded forks a session whenever it is asked. Each shuts itself in: Landlock's
rules on files, a filter of system calls that lets no process be made and no socket, and limits of
time, memory and disk, watched from outside. `bubblewrap` has the helper in namespaces of its own,
without a network, with a root of which nothing can be written. `landlock` is the same without them,
for containers as Gradescope's: what else is there is kept from a session by one thing, not two.
What a session sees is the same in both, so that grades are.
"""

from tools.grade.sandbox.session import Ended, NoData, Raised
from tools.grade.sandbox.tier import TRIED, NoSandbox, Tier, strongest, try_out
