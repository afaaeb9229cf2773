"""The language that this process draws the site in, and the book in it.

`tr` translates what stands around the pages: in Python, in templates, in scripts. The
command `python -m tools languages` finds the messages that are marked so.
"""

import re
from functools import cache
from pathlib import Path

from tools.book.book import Book
from tools.languages.language import ENGLISH, SITE, Language

CORES = re.compile(r"\b(\d+) cores\b")
_language = ENGLISH


def speak(language: Language) -> None:
    """Draw everything from now on in `language`."""
    global _language
    _language = language


def spoken() -> Language:
    return _language


def tr(message: str) -> str:
    return _language.say(SITE, message)


def punctuated(text: str) -> str:
    """Put the language's own marks between the words that `text` is made of."""
    for mark, own_mark in _language.marks.items():
        text = text.replace(mark, own_mark)
    return text


def translate_facts(text: str) -> str:
    """Translate what a recording says of the machine that it was made on."""
    return CORES.sub(lambda cores: tr("{0} cores").format(cores[1]), punctuated(text))


def translate_times(times: str) -> str:
    """Translate what a recording's times are: modelled for a card, or measured."""
    hardware = times.removeprefix("measured on ")
    if hardware == times:
        return tr(times)
    return tr("measured on {0}").format(translate_facts(hardware))


@cache  # a process draws one site, and its files do not change meanwhile
def read_book(root: Path) -> Book:
    """Read the book in the language of the site."""
    if _language.is_english:
        return Book(root)
    from tools.languages.translated_book import TranslatedBook

    return TranslatedBook(root, language=_language)
