"""The translations, `languages/<code>.po`: kept in step with the English, checked, and written out
as notebooks that open alone.
"""

from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import generate_po

from tools.book.book import Book
from tools.errors import BookError
from tools.files import write_files
from tools.languages.checks import faults
from tools.languages.language import Language, read_languages
from tools.languages.messages import Messages, all_messages
from tools.languages.translated_book import TranslatedBook

MOST_COMPARED = 200  # new messages that are compared with those that are gone
SHORT = 50  # letters of a message that name it in a line


def write_languages(book: Book) -> Iterator[str]:
    """Bring every `.po` in step, then write the notebooks.

    Yields what changed and what is left to do. Raises BookError, once all is written, if a
    translation is faulty.
    """
    languages = read_languages(book.root).values()
    messages = all_messages(book, languages)
    catalogs = {}
    for language in languages:
        catalogs[book.root / language.where] = updated(language, messages)
    yield from _write(catalogs, book)
    yield from write_translated_notebooks(book)
    yield from check_languages(book)


def write_translated_notebooks(book: Book) -> list[str]:
    """Write the notebooks of each language that are not as they are to be; returns which."""
    return _write(translated_notebooks(book), book)


def check_languages(book: Book) -> Iterator[str]:
    """Yield what is untranslated, stale or not written. Raises BookError if one is faulty."""
    languages = read_languages(book.root).values()
    messages = all_messages(book, languages)
    faulty = []
    for language in languages:
        yield from _state_of(language, messages, book)
        for context, message in messages:
            entry = language.translation(context, message)
            if entry is None:
                continue
            place = f"{language.where}: {named(context, message)}"
            for fault in faults(entry, language):
                faulty.append(f"{place}: {fault.check}: {fault.words}")

    for path in _differing(translated_notebooks(book)):
        where = path.relative_to(book.root).as_posix()
        yield f"{where}: not up to date; 'make languages' writes it"
    if faulty:
        heading = "translations are faulty; correct them there"
        raise BookError("\n".join([heading, *faulty]))


def _state_of(language: Language, messages: Messages, book: Book) -> Iterator[str]:
    """Yield how much of a language is translated, and what is not."""
    where = language.where
    left = [
        (context, message)
        for context, message in messages
        if language.translation(context, message) is None
    ]
    in_english = [page for page in book.documents if page not in language.pages]
    yield f"{where}: {len(messages) - len(left):,} of {len(messages):,} messages"
    yield f"{where}: in English are {', '.join(in_english)}"
    for context, message in left:
        yield f"{where}: {named(context, message)}: not translated as it is"


def translated_notebooks(book: Book) -> dict[Path, str]:
    """Return the notebooks of all languages, by path."""
    files = {}
    for language in read_languages(book.root).values():
        files |= TranslatedBook(book.root, language=language).notebooks()
    return files


def named(context: str, message: str) -> str:
    """Return a message by its context and its first letters, for a line about it."""
    line = message.partition("\n")[0]
    if len(line) > SHORT:
        line = f"{line[:SHORT]}..."
    return f"{context}: '{line}'"


def updated(language: Language, messages: Messages) -> str:
    """Return the text of a `.po` with every message of today.

    One that has changed keeps the translation of what it was, marked `fuzzy` for someone to
    look at; one that is gone goes. Where very many have changed, pages were written anew:
    nothing is kept then, as it takes seconds to find what one message may have been.
    """
    today = Catalog()
    for context, message in messages:
        today.add(message, context=context)
    catalog = language.catalog
    new = sum(catalog.get(message, context) is None for context, message in messages)
    catalog.update(
        today, no_fuzzy_matching=new > MOST_COMPARED, update_creation_date=False
    )
    return po_text(catalog)


def po_text(catalog: Catalog) -> str:
    for entry in catalog:
        entry.flags.discard("python-format")  # taken for one by its %
    lines = generate_po(catalog, ignore_obsolete=True, include_previous=True, width=0)
    return "".join(lines)


def _write(files: dict[Path, str], book: Book) -> list[str]:
    changed = _differing(files)
    write_files(changed, book.root)
    return [f"{path.relative_to(book.root).as_posix()}: written" for path in changed]


def _differing(files: dict[Path, str]) -> dict[Path, str]:
    """Return those files that do not hold what they are to hold."""
    differing = {}
    for path, text in files.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            differing[path] = text
    return differing
