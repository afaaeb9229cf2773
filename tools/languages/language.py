"""A language of the book: what `languages/languages.yml` says of it, and its translations."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from fontTools.ttLib import TTFont

from tools.book.figures import faces
from tools.errors import BookError
from tools.files import read_text, read_yaml

FOLDER = "languages"
SETTINGS, TERMS = f"{FOLDER}/languages.yml", f"{FOLDER}/terms.csv"
LINE = re.compile(r'(#.*|((msgctxt|msgid|msgstr) )?"([^"\\]|\\.)*")?')  # of a .po


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

    @property
    def fonts(self) -> list[Path]:
        """What figures are lettered in beside DejaVu, as chapters carry them: `<code>.otf`."""
        return [*(self.root / FOLDER).glob(f"{self.code}.[ot]tf")]

    @cached_property
    def letters(self) -> set[str]:
        """The letters that figures can have."""
        return {chr(code) for font in faces(self.fonts) for code in TTFont(font).getBestCmap()}

    @cached_property
    def terms(self) -> list[dict[str, str]]:
        """How words are to be translated, and not, into this language and others."""
        return [*csv.DictReader(read_text(self.root / TERMS, self.root).splitlines())]

    @cached_property
    def catalog(self) -> Catalog:
        """Its translations, none where there is no file yet. Raises BookError if it is none."""
        path = self.root / self.where
        if not path.is_file():
            return Catalog(header_comment=f"# {self.settings['name']}", fuzzy=False)
        lines = read_text(path, self.root).split("\n")
        for number, line in enumerate(lines, start=1):
            if not LINE.fullmatch(line):  # which Babel would pass over
                place = f"{self.where}: line {number}"
                raise BookError(f"{place}: not whole: {line[:40]}; correct it there")
        return read_po(lines)

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
