"""Runs students' cells where they can do no harm, with the judge outside.

from tools.grade.sandbox import Ended, Limits, Raised, tiers

tier = tiers()[0]                              # the strongest that this machine offers
with tier.session(Limits(seconds=10)) as session:
    session.run("x = 1")                       # a cell
    session.ask("x + n", {"n": 2}, seconds=5)  # data: 3
"""

from tools.grade.sandbox.session import Ended, Limits, Raised, Session
from tools.grade.sandbox.tier import Tier, close, missing, tiers

__all__ = ["Ended", "Limits", "Raised", "Session", "Tier", "close", "missing", "tiers"]
