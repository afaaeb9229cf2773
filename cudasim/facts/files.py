"""Reading and writing the files of facts."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from facts import FactsError

FOLDER = Path(__file__).resolve().parent
PROJECTS_PAGE = FOLDER.parent / "docs" / "other-projects.md"
COMMAND = "python cudasim/facts"


def replace(path: Path, text: str) -> None:
    """Write a file in one stroke, so that an interruption leaves the earlier one."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def replace_json(name: str, content: dict[str, Any]) -> None:
    """Write `name`.json in the folder of facts."""
    text = json.dumps(content, indent=1)
    replace(FOLDER / f"{name}.json", f"{text}\n")


@contextmanager
def reading(path: Path, command: str, remedy: str = "run it again") -> Iterator[Any]:
    """Yield what `command` wrote to `path`.

    Where the file, or what the block expects of it, is wrong, raises FactsError.
    """
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        fault = f"{type(error).__name__}: {error}"
        text = f"{path}: not what '{command}' writes ({fault}); {remedy}"
        raise FactsError(text) from None
