"""The one error that this book's tools show to a person."""


class BookError(Exception):
    """A fault in the input, told in one line that names the file and the mend."""


class NoGpu(BookError):
    """There is no GPU that the torch at hand can use; the message says why."""
