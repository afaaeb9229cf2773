"""PyTorch's own tests, run against `cudasim`."""


class ConformanceError(Exception):
    """A reason to stop, in one line that says what to do."""
