"""The one error that this book's tools show to a person."""


class BookError(Exception):
    """A fault in the input, in one line that names the file and what to do about it."""


class CannotRun(BookError):
    """There is no Python here that the packages of a framework install on."""


class NoGpu(BookError):
    """There is no GPU that the torch at hand can use; the message says why."""
