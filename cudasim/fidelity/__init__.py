"""A kit for a machine with a real GPU: small programs that the GPU and `cudasim` both run.

`README.md` has the commands.
"""


class FidelityError(Exception):
    """A reason to stop, in one line that says what to do."""
