"""The one error that this book's tools show to a person."""


class BookError(Exception):
    """A fault in the input, in one line: where it is, what is wrong, and what to do about it."""

    def __init__(self, where: str, fault: str = "", advice: str = "") -> None:
        message = where
        if fault:
            message += f": {fault}"
        if advice:
            message += f"; {advice}"
        super().__init__(message)


class CannotRun(BookError):
    """There is no Python here that the packages of a framework install on."""


class NoGpu(BookError):
    """There is no GPU that the torch at hand can use; the message says why."""
