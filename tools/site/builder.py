"""The process that draws the site: `python -m tools.site.builder ROOT WORK`."""

import contextlib
import io
import sys
from pathlib import Path

import jupyter_book.cli.main
from sphinx.errors import SphinxError

from tools.errors import BookError
from tools.files import NO_ROOM, cannot_write
from tools.site.extension import read_pages

OPTIONS = ("-W", "--keep-going", "-n", "-q")  # a warning is an error


def main() -> int:
    """Check the book, then write the site below WORK; returns the exit code."""
    root, work = Path(sys.argv[1]), sys.argv[2]
    try:
        book, _ = read_pages(root)
        print(f"site: building {len(book.documents)} pages", flush=True)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    arguments = ["build", str(root), "--path-output", work, *OPTIONS]
    said = io.StringIO()  # of a full disk Sphinx says that this should be reported as its fault
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            jupyter_book.cli.main.main(arguments, standalone_mode=False)
    except RuntimeError as error:
        cause = error.__cause__
        fault = cause.__cause__ or cause  # Sphinx wraps what a handler of its events raises
        if isinstance(fault, OSError) and fault.errno in NO_ROOM:
            fault = cannot_write(Path(work), root, fault)
        if isinstance(fault, BookError):
            said = io.StringIO(f"error: {fault}\n")
        elif not isinstance(cause, SphinxError):
            raise
        return 1  # Sphinx has said what is wrong, and Jupyter Book would add two tracebacks
    finally:
        sys.stderr.write(said.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
