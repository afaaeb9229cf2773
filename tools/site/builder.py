"""The process that draws the site in one language: `python -m tools.site.builder ROOT WORK CODE`.

English has no CODE.
"""

import contextlib
import io
import sys
from pathlib import Path

import jupyter_book.cli.main
import yaml
from sphinx.errors import SphinxError

from tools.errors import BookError
from tools.files import NO_ROOM, cannot_write, read_yaml, write_text
from tools.languages.language import read_languages
from tools.site import speech
from tools.site.extension import read_pages

OPTIONS = ("-W", "--keep-going", "-n", "-q")  # a warning is an error


def main() -> int:
    """Check the book, then write the site below WORK; returns the exit code."""
    root, work, code = Path(sys.argv[1]), Path(sys.argv[2]), "".join(sys.argv[3:])
    try:
        if code:
            speech.speak(read_languages(root)[code])
        book, _ = read_pages(root)
        print(
            f"site: building {len(book.documents)} pages{f' ({code})' * bool(code)}",
            flush=True,
        )
        config = write_config(root, work)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    arguments = [
        "build",
        str(root),
        "--path-output",
        str(work),
        "--config",
        str(config),
        *OPTIONS,
    ]
    said = (
        io.StringIO()
    )  # of a full disk Sphinx says that this should be reported as its fault
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(said),
        ):
            jupyter_book.cli.main.main(arguments, standalone_mode=False)
    except RuntimeError as error:
        cause = error.__cause__
        fault = (
            cause.__cause__ or cause
        )  # Sphinx wraps what a handler of its events raises
        if isinstance(fault, OSError) and fault.errno in NO_ROOM:
            fault = cannot_write(work, root, fault)
        if isinstance(fault, BookError):
            said = io.StringIO(f"error: {fault}\n")
        elif not isinstance(cause, SphinxError):
            raise
        return 1  # Sphinx has said what is wrong, and Jupyter Book would add two tracebacks
    finally:
        sys.stderr.write(said.getvalue())
    return 0


def write_config(root: Path, work: Path) -> Path:
    """The book's settings, with the title and the locale of the language."""
    settings = read_yaml(root / "_config.yml", root)
    settings |= {name: speech.tr(settings[name]) for name in ("title", "author")}
    settings["html"]["extra_footer"] = speech.tr(settings["html"]["extra_footer"])
    config = settings["sphinx"]["config"]
    config["language"] = speech.locale()
    config["nb_code_prompt_show"] = speech.tr("Show the code")
    config["copybutton_image_svg"] = f"<span>{speech.tr('Copy to clipboard')}</span>"
    path = work / "_config.yml"
    write_text(path, yaml.safe_dump(settings, allow_unicode=True), work)
    return path


if __name__ == "__main__":
    sys.exit(main())
