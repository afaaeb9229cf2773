"""The one error that this book's tools show to a person."""


class BookError(Exception):
    """A fault in the input, told in one line that names the file and the mend."""
