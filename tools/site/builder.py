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
from tools.site.extension import read_pages
from tools.site.languages import read_book, speak, spoken, tr

OPTIONS = ("-W", "--keep-going", "-n", "-q")  # a warning is an error
# MyST-NB finds plugins among installed distributions: this folder holds one with our own.
PLUGINS = Path(__file__).with_name("plugins")


def main() -> int:
    """Check the book, then write the site below WORK; return the exit code."""
    root, work = Path(sys.argv[1]), Path(sys.argv[2])
    code = sys.argv[3] if len(sys.argv) > 3 else ""
    try:
        if code:
            speak(read_languages(root)[code])
        read_pages(root)
        count = len(read_book(root).documents)
        language = f" ({code})" if code else ""
        print(f"site: building {count} pages{language}", flush=True)
        config = write_config(root, work)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1

    sys.path.append(str(PLUGINS))
    return build(root, work, config)


def build(root: Path, work: Path, config: Path) -> int:
    """Run Jupyter Book, and show nothing of its output but errors."""
    arguments = ["build", str(root), "--path-output", str(work)]
    arguments += ["--config", str(config), *OPTIONS]
    messages = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(messages),
        ):
            jupyter_book.cli.main.main(arguments, standalone_mode=False)
    except RuntimeError as error:
        fault = book_error(error, root, work)
        if fault:
            # Instead of what Sphinx says: of a full disk, to report it as its own fault.
            messages = io.StringIO(f"error: {fault}\n")
        elif not isinstance(error.__cause__, SphinxError):
            raise
        # Sphinx has printed what is wrong, and Jupyter Book would add two tracebacks.
        return 1
    finally:
        sys.stderr.write(messages.getvalue())
    return 0


def book_error(error: RuntimeError, root: Path, work: Path) -> BookError | None:
    """Return the error of this book's own that made Jupyter Book fail, if one did."""
    cause = error.__cause__
    if cause is None:
        return None
    fault = cause.__cause__ or cause  # Sphinx wraps what a handler of its events raises
    if isinstance(fault, OSError) and fault.errno in NO_ROOM:
        return cannot_write(work, root, fault)
    return fault if isinstance(fault, BookError) else None


def write_config(root: Path, work: Path) -> Path:
    """Write `_config.yml`, with the title and the locale of the language."""
    config = read_yaml(root / "_config.yml", root)
    for name in ("title", "author"):
        config[name] = tr(config[name])
    html = config["html"]
    html["extra_footer"] = tr(html["extra_footer"])
    sphinx = config["sphinx"]["config"]
    sphinx["language"] = spoken().locale
    sphinx["nb_code_prompt_show"] = tr("Show the code")
    sphinx["copybutton_image_svg"] = f"<span>{tr('Copy to clipboard')}</span>"

    path = work / "_config.yml"
    write_text(path, yaml.safe_dump(config, allow_unicode=True), work)
    return path


if __name__ == "__main__":
    sys.exit(main())
