"""A plugin of pytest: tests on simulated GPUs, or on the real ones of a machine that has them.

`plugin` is what pytest loads; `gpus` what a test can claim of its GPUs; `world` runs a test in
one process a rank, and `rank` is what happens in such a process.
"""
