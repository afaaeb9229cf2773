"""Measure a GPU: what its card file says, from PyTorch alone, and how true the model is to it."""


class CannotCalibrate(Exception):
    """Why nothing can be measured or checked here, in one line that names what to do."""
