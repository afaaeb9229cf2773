"""A plugin of pytest: tests on simulated GPUs, or on the real ones of a machine that has them.
`plugin` is what pytest loads; `markers` what a test says of its GPUs, and `gpus` what it can claim
of them; `world` runs a test in one process a rank, and `rank` is what happens in such a process."""

IN_RANK = "CUDASIM_TEST_RANK"  # set in the process of a rank
