"""A language of the book: what `languages/languages.yml` says of it, and its translations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import PoFileError, read_po

from tools.errors import BookError
from tools.files import read_text, read_yaml

FOLDER = "languages"
SETTINGS = f"{FOLDER}/languages.yml"


@dataclass(frozen=True)
class Language:
    code: str  # of its file and of its part of the site
    settings: Mapping[str, Any] = field(repr=False)
    pages: list[str] = field(repr=False)  # the documents that are to be translated
    root: Path = field(repr=False)

    @property
    def where(self) -> str:
        return f"{FOLDER}/{self.code}.po"

    @property
    def tag(self) -> str:
        """As browsers call it."""
        return self.settings["locale"].replace("_", "-")

    @cached_property
    def catalog(self) -> Catalog:
        """Its translations, none where there is no file yet. Raises BookError if it is none."""
        path = self.root / self.where
        if not path.is_file():
            return Catalog()
        try:
            return read_po(read_text(path, self.root).splitlines(True), abort_invalid=True)
        except PoFileError as error:
            fault = f"line {error.lineno + 1}: {error.args[0]}"
            raise BookError(f"{self.where}: {fault}; correct it there") from None

    def translation(self, context: str, message: str) -> Message | None:
        """A message with its translation, if it has one that is current."""
        entry = self.catalog.get(message, context)
        return entry if entry and entry.string and not entry.fuzzy else None

    def say(self, context: str, message: str) -> str:
        entry = self.translation(context, message)
        return entry.string if entry else message


def read_languages(root: Path) -> dict[str, Language]:
    """The languages besides English, by their code; none where the book names none."""
    if not (root / SETTINGS).is_file():
        return {}
    settings = read_yaml(root / SETTINGS, root)
    try:
        pages = [str(page) for page in settings["pages"]]
        told = settings["languages"].items()
        return {code: Language(code, {"name": code} | each, pages, root) for code, each in told}
    except (KeyError, TypeError, AttributeError):
        raise BookError(f"{SETTINGS}: lacks 'languages:' or 'pages:'; restore them") from None
