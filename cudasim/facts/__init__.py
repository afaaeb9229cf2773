"""What is known of `cudasim`: recorded data as JSON, and tables of it as Markdown."""


class FactsError(Exception):
    """A reason to stop, in one line that says what to do."""
