"""A plugin of pytest: tests on simulated GPUs, or on real ones where there are any. `plugin` is
what pytest loads; `world` runs a test in one process a rank."""

IN_RANK = "CUDASIM_TEST_RANK"  # set in the process of a rank
