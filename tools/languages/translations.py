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
from tools.languages.edition import Edition
from tools.languages.language import Language, read_languages
from tools.languages.messages import Messages, all_messages

SHORT = 50  # letters of a message that name it


def write_languages(book: Book) -> Iterator[str]:
    """Bring every `.po` in step, then write the notebooks; yields what changed and what is left to
    do. Raises BookError, once all is written, if a translation is faulty."""
    languages = read_languages(book.root).values()
    messages = all_messages(book, languages)
    yield from _write({book.root / each.where: updated(each, messages) for each in languages}, book)
    yield from write_editions(book)
    yield from check_languages(book)


def write_editions(book: Book) -> list[str]:
    """Write the notebooks of each language that are not as they are to be; returns which."""
    return _write(edition_files(book), book)


def check_languages(book: Book) -> Iterator[str]:
    """Yield what is untranslated, stale or not written. Raises BookError if one is faulty."""
    languages = read_languages(book.root).values()
    messages, found = all_messages(book, languages), []
    for language in languages:
        where, entries = language.where, {each: language.translation(*each) for each in messages}
        left = [message for message, entry in entries.items() if entry is None]
        others = [page for page in book.documents if page not in language.pages]
        yield f"{where}: {len(messages) - len(left):,} of {len(messages):,} messages"
        yield f"{where}: in English are {', '.join(others)}"
        yield from (f"{where}: {named(*message)}: not translated as it is" for message in left)
        for message, entry in entries.items():
            wrong = faults(entry, language) if entry else ()
            found += [f"{where}: {named(*message)}: {name}: {fault}" for name, fault in wrong]
    for path in _differing(edition_files(book)):
        yield f"{path.relative_to(book.root).as_posix()}: not of today; 'make languages' writes it"
    if found:
        raise BookError("\n".join(["translations are faulty; mend them there", *found]))


def edition_files(book: Book) -> dict[Path, str]:
    files = {}
    for language in read_languages(book.root).values():
        files |= Edition(book.root, language=language).notebooks()
    return files


def named(context: str, message: str) -> str:
    line = message.partition("\n")[0]
    return f"{context}: '{line if len(line) <= SHORT else line[:SHORT] + '...'}'"


def updated(language: Language, messages: Messages) -> str:
    """The text of a `.po` with every message of today. One that has changed keeps the translation
    of what it was, marked `fuzzy` for someone to look at; one that is gone goes."""
    today, catalog = Catalog(), language.catalog
    for context, message in messages:
        today.add(message, context=context)
    catalog.update(today, update_creation_date=False)
    return po_text(catalog)


def po_text(catalog: Catalog) -> str:
    for entry in catalog:
        entry.flags.discard("python-format")  # taken for one by its %
    return "".join(generate_po(catalog, ignore_obsolete=True, include_previous=True, width=0))


def _write(files: dict[Path, str], book: Book) -> list[str]:
    changed = _differing(files)
    write_files(changed, book.root)
    return [f"{path.relative_to(book.root).as_posix()}: written" for path in changed]


def _differing(files: dict[Path, str]) -> dict[Path, str]:
    held = {path: path.read_text(encoding="utf-8") for path in files if path.is_file()}
    return {path: text for path, text in files.items() if text != held.get(path)}
