"""The version of what a program sees of simulated GPUs.

Raise it with every change after which some program prints something else, is refused
where it was not, or takes another modelled time. What was recorded with another version
is out of date; a change that no program can see leaves it as it is.
"""

BEHAVIOUR = 5
