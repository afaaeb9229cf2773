"""The translations, `languages/<code>.po`: kept in step with the English, checked, and written out
as notebooks that open alone.
"""

import io
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import write_po

from tools.book.book import Book
from tools.errors import BookError
from tools.files import write_files
from tools.languages.checks import faults
from tools.languages.edition import Edition
from tools.languages.language import Language, read_languages
from tools.languages.messages import Messages, messages_of, messages_of_figures, messages_of_site

SHORT = 50  # letters of a message that name it


def write_languages(book: Book) -> Iterator[str]:
    """Bring every `.po` in step, then write the notebooks; yields what changed and what is left to
    do. Raises BookError, once all is written, if a translation is faulty."""
    messages = all_messages(book)
    texts = {book.root / each.where: updated(each, messages) for each in languages_of(book)}
    yield from _write(texts, book.root)
    yield from write_editions(book)
    yield from check_languages(book, messages)


def write_editions(book: Book) -> Iterator[str]:
    """Write the notebooks of each language that are not as they are to be."""
    yield from _write(edition_files(book), book.root)


def check_languages(book: Book, messages: Messages | None = None) -> Iterator[str]:
    """Yield what is untranslated, stale or not written. Raises BookError if one is faulty."""
    messages, found = messages or all_messages(book), []
    for language in languages_of(book):
        entries = [(language.translation(*message), message) for message in messages]
        left = [message for entry, message in entries if entry is None]
        yield f"{language.where}: {len(messages) - len(left):,} of {len(messages):,} messages"
        others = [page for page in book.documents if page not in language.pages]
        yield f"{language.where}: in English are {', '.join(others)}"
        yield from (
            f"{language.where}: {named(*message)}: not translated as it is" for message in left
        )
        found += [
            f"{language.where}: {named(entry.context, entry.id)}: {name}: {fault}"
            for entry in (entry for entry, _ in entries if entry)
            for name, fault in faults(entry, language)
        ]
    for path, text in edition_files(book).items():
        if _differs(path, text):
            where = path.relative_to(book.root).as_posix()
            yield f"{where}: not of today; 'make languages' writes it"
    if found:
        raise BookError("\n".join(["translations are faulty; mend them there", *found]))


def languages_of(book: Book) -> list[Language]:
    return list(read_languages(book.root).values())


def all_messages(book: Book) -> Messages:
    found = Messages()
    for language in languages_of(book)[:1]:
        for page in language.pages:
            found |= messages_of(page, book)
    found |= messages_of_figures(found, book)
    found |= messages_of_site(book)
    return found


def edition_files(book: Book) -> dict[Path, str]:
    files = {}
    for language in languages_of(book):
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
    catalog.obsolete.clear()
    return po_text(catalog)


def po_text(catalog: Catalog) -> str:
    for entry in catalog:
        entry.flags.discard("python-format")  # taken for one by its %
    out = io.BytesIO()
    write_po(out, catalog, width=0, include_previous=True)
    return out.getvalue().decode()


def _write(texts: dict[Path, str], root: Path) -> Iterator[str]:
    changed = {path: text for path, text in texts.items() if _differs(path, text)}
    write_files(changed, root)
    yield from (f"{path.relative_to(root).as_posix()}: written" for path in changed)


def _differs(path: Path, text: str) -> bool:
    return not path.is_file() or path.read_text(encoding="utf-8") != text
