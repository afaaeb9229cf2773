"""A plugin of pytest: tests on simulated GPUs, or on real ones where there are any.

Pytest loads `plugin`; `world` runs a test in several processes, one for each rank.
"""

IN_RANK = "CUDASIM_TEST_RANK"  # set in the process of a rank
