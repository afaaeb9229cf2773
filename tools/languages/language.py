"""A language of the book: what `languages/languages.yml` says of it, and its translations."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po
from fontTools.ttLib import TTFont

from tools.book.figures import faces
from tools.book.grammar import CHOICES, DEEPER
from tools.errors import BookError
from tools.files import ROOT, read_text, read_yaml

FOLDER = "languages"
LANGUAGES = f"{FOLDER}/languages.yml"
TERMS = f"{FOLDER}/terms.csv"
# The context of what stands around the pages.
SITE_CONTEXT = "site"
# A line of a .po; Babel would pass over any other.
LINE = re.compile(r'(#.*|((msgctxt|msgid|msgstr) )?"([^"\\]|\\.)*")?')


@dataclass(frozen=True)
class Language:
    """A language of the book; what is left out is as in English."""

    code: str  # of its file and of its part of the site
    name: str  # as its readers call it
    locale: str = "en"  # as Sphinx calls it
    pages: list[str] = field(default_factory=list)  # those to be translated
    root: Path = field(default=ROOT, repr=False)
    # How a heading begins that leads off the path, and an answer that names the right choice.
    deeper: str = DEEPER
    choices: Sequence[str] = CHOICES
    # Its own marks between words, by the English ones.
    marks: dict[str, str] = field(default_factory=dict)
    # Expressions that find a negation, and what no text may hold, with the advice for it.
    negation: str | None = None
    wrong: dict[str, str] = field(default_factory=dict)
    # The letters for each letter of English that a translation has, least and most.
    length: Sequence[float] | None = None

    @property
    def is_english(self) -> bool:
        return self.code == ENGLISH.code

    @property
    def where(self) -> str:
        return f"{FOLDER}/{self.code}.po"

    @property
    def tag(self) -> str:
        """The language as browsers call it."""
        return self.locale.replace("_", "-")

    @property
    def fonts(self) -> list[Path]:
        """What figures are lettered in beside DejaVu, as chapters carry them: `<code>.otf`."""
        return list((self.root / FOLDER).glob(f"{self.code}.[ot]tf"))

    @cached_property
    def letters(self) -> set[str]:
        """The letters that figures can have."""
        letters = set()
        for font in faces(self.fonts):
            letters |= {chr(code) for code in TTFont(font).getBestCmap()}
        return letters

    @cached_property
    def terms(self) -> list[dict[str, str]]:
        """How words are to be translated, and not, into this language and others."""
        lines = read_text(self.root / TERMS, self.root).splitlines()
        return list(csv.DictReader(lines))

    @cached_property
    def catalog(self) -> Catalog:
        """Its translations, none where there is no file yet. Raises BookError if it is none."""
        path = self.root / self.where
        if not path.is_file():
            return Catalog(header_comment=f"# {self.name}", fuzzy=False)
        lines = read_text(path, self.root).split("\n")
        for number, line in enumerate(lines, start=1):
            if not LINE.fullmatch(line):
                raise BookError(
                    f"{self.where}: line {number}",
                    f"not whole: {line[:40]}",
                    "correct it there",
                )
        return read_po(lines)

    def translation(self, context: str, message: str) -> Message | None:
        """Return a message with its translation, if it has one that is current."""
        entry = self.catalog.get(message, context)
        if entry is None or not entry.string or entry.fuzzy:
            return None
        return entry

    def say(self, context: str, message: str) -> str:
        """Return the translation of a message, or the message itself."""
        entry = self.translation(context, message)
        if entry is None:
            return message
        return entry.string


ENGLISH = Language("en", "English")


def read_languages(root: Path) -> dict[str, Language]:
    """Return the languages besides English, by their code; none where the book names none."""
    if not (root / LANGUAGES).is_file():
        return {}
    content = read_yaml(root / LANGUAGES, root)
    try:
        pages = [str(page) for page in content["pages"]]
        languages = {}
        for code, entry in content["languages"].items():
            fields = {"name": code} | entry
            negation = fields.pop("not", None)
            languages[code] = Language(
                code, pages=pages, root=root, negation=negation, **fields
            )
        return languages
    except (KeyError, TypeError, AttributeError):
        raise BookError(
            LANGUAGES,
            "lacks 'languages:' or 'pages:', or names what no language has",
            "restore it",
        ) from None
