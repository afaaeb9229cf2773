"""Runs students' cells where they can do no harm, with the judge outside.

    from tools.grade.sandbox import Ended, Limits, Raised, tiers

    tier = tiers()[0]                              # the strongest that this machine offers
    with tier.session(Limits(seconds=10)) as session:
        session.run("x = 1")                       # a cell: {"ok", "error", "shown", "value"}
        session.ask("x + n", {"n": 2}, seconds=5)  # data: 3

`tiers()` is empty where there is no sandbox; `missing()` says why, in one line each. `Tier(name)`
is one without trying it again, for workers. `tier.about` is what to write into a result.

Tiers, the strongest first: `namespaces` (each session has a root, a network, processes and a
user of its own), `bubblewrap` (a worker's sessions are within one bubblewrap) and `landlock`
(only rules of the kernel on files, without any right). In each, a filter of system calls lets no
process be made and no socket, memory is limited by RLIMIT_DATA, from outside and by a cgroup
where there may be one, and what is seen inside is the same, so that grades are.

- `run` is refused once `ask` was called: what a question says cannot be shown.
- `ask` runs the statements as the body of a function whose parameters are the inputs: they see
  the student's names, and change none.
- A session that has ended raises `Ended` from then on. Its process is gone by then.
- Nothing can be started by a session, so `Limits.processes` is 0.
"""

from tools.grade.sandbox.session import Ended, Limits, Raised, Session
from tools.grade.sandbox.tier import Tier, close, missing, tiers

__all__ = ["Ended", "Limits", "Raised", "Session", "Tier", "close", "missing", "tiers"]
