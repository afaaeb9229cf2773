"""What a command of these can say is wrong."""


class CannotRun(Exception):
    """Why a project's tests cannot be run, in one line that names what to do."""
