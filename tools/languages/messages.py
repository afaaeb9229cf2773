"""What of the book is to be translated, in messages: one is a block of a text, never less.

A message has a context, which says where it stands: `computing-devices#predict-bus` is a cell of a
chapter, `book/preface` a page, `img/ring.svg` a figure. In each text the messages are replaced in
place, so that all between them stays as it is, byte for byte.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from html import escape, unescape
from pathlib import Path

from tools.book.addresses import relative_links, with_texts
from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import FIGURE, named_figures
from tools.book.grammar import (
    ANSWER_SUMMARY,
    LINKS_CELL,
    answer_text,
    framed_answer,
)
from tools.book.repository import SERVICES
from tools.files import read_text, read_yaml
from tools.languages.language import SITE_CONTEXT, Language

# Where what the site says is marked by tr(), in Python, in templates and in scripts.
SCRIPTS = "book/static/*.js"
MARKING = ("tools/site/*.py", "book/templates/*.*", SCRIPTS)
MARKED = re.compile(r"\btr\(\s*(?P<quote>[\"'])(?P<said>.+?)(?P=quote)[,)]", re.DOTALL)

# Returns what to say instead of a message, by its context and the English message.
Say = Callable[[str, str], str]

# A block ends at an empty line. Code in fences, and what stands before a page, are not text.
BETWEEN = re.compile(
    r"\A---\n.*?\n---\n|^(?P<fence>`{3,}).*?^(?P=fence)`*$|\n\s*\n",
    re.MULTILINE | re.DOTALL,
)
# What belongs to no language: code, formulas, where links lead, tags, directives, comments.
NO_TEXT = re.compile(
    r"(`+).+?\1|<code>.*?</code>|\$[^$]+\$|\]\([^)]*\)|<[^>]*>|\{[^{}]*\}|&\w+;"
    r"|^:{3,}[^\n]*|^%[^\n]*",
    re.MULTILINE | re.DOTALL,
)
LETTERS = re.compile(r"[^\W\d_]{2}")
LETTERING = re.compile(r"(?<=>)[^<>]*[^\W\d_]{2}[^<>]*(?=</(?:text|tspan|title|desc)>)")
# The row of links of a chapter: each language has its own.
LINKS_ROW = re.compile(r"(?<=: )\[.*\)(?=\.\n)")
LINKS_PLACE = "{links}"  # stands for that row in a message


class Messages(dict[tuple[str, str], None]):
    """Contexts and messages, in order, each once."""

    def note(self, context: str, message: str) -> str:
        self[context, message] = None
        return message


def translate_text(text: str, context: str, say: Say) -> str:
    """Return a text in Markdown with what `say` says in the place of each of its messages."""

    def translated(block: str) -> str:
        message = block.strip()
        if not LETTERS.search(NO_TEXT.sub("", message)):
            return block
        return block.replace(message, say(context, message))

    parts = []
    end = 0
    for between in BETWEEN.finditer(text):
        parts.append(translated(text[end : between.start()]))
        parts.append(between[0])
        end = between.end()
    parts.append(translated(text[end:]))
    return "".join(parts)


def translate_drawing(drawing: str, context: str, say: Say) -> str:
    """Return a figure, lettered anew."""

    def lettered(match: re.Match) -> str:
        return escape(say(context, unescape(match[0])), quote=False)

    return LETTERING.sub(lettered, drawing)


def translate_chapter(chapter: Chapter, say: Say) -> Chapter:
    """Return a chapter with its texts, and what stands beside its code, in other words.

    Figures are named, not drawn. Code stays as it is.
    """
    notebook = deepcopy(chapter.notebook)
    for cell in notebook.cells:
        context = f"{chapter.page_name}#{cell.id}"
        if cell.cell_type == "markdown":
            text = named_figures(cell.source)
            if cell.id == LINKS_CELL:
                cell.source = _translate_links(text, context, say)
            elif answer := answer_text(text):
                answer = translate_text(answer, context, say)
                cell.source = framed_answer(answer, say(SITE_CONTEXT, ANSWER_SUMMARY))
            else:
                cell.source = translate_text(text, context, say)

        display = cell.metadata.get("mystnb", {})
        if "code_prompt_show" in display:
            display["code_prompt_show"] = say(context, display["code_prompt_show"])
        image = display.get("image", {})
        if "alt" in image:
            image["alt"] = say(context, image["alt"])
    return Chapter(chapter.name, notebook)


def _translate_links(text: str, context: str, say: Say) -> str:
    row = LINKS_ROW.search(text)[0]
    text = translate_text(text.replace(row, LINKS_PLACE), context, say)
    return text.replace(LINKS_PLACE, row)


def messages_of(document: str, book: Book) -> Messages:
    """Return what is to be translated of a document of `_toc.yml`, its title first."""
    folder, _, name = document.partition("/")
    messages = Messages()
    if folder == "notebooks":
        for chapter in book.chapters_on(name):
            relative = with_texts(
                chapter, lambda text: relative_links(text, name, book)
            )
            translate_chapter(relative, messages.note)
    else:
        text = read_text(book.root / f"{document}.md", book.root)
        translate_text(text, document, messages.note)
    return messages


def all_messages(book: Book, languages: Iterable[Language]) -> Messages:
    """Return what is to be translated: pages, their figures, and what stands around them."""
    messages = Messages()
    pages: dict[str, None] = {}
    for language in languages:
        pages |= dict.fromkeys(language.pages)
    for page in pages:
        messages |= messages_of(page, book)

    for svg in _figures_in(messages):
        drawing = read_text(book.root / "img" / svg, book.root)
        translate_drawing(drawing, f"img/{svg}", messages.note)
    for message in words_of_site(book):
        if message:
            messages.note(SITE_CONTEXT, message)
    return messages


def _figures_in(messages: Messages) -> list[str]:
    """Return the drawings that messages show, each once."""
    drawings: dict[str, None] = {}
    for _, message in messages:
        for match in FIGURE.finditer(message):
            drawings[match["svg"]] = None
    return list(drawings)


def words_of_site(book: Book) -> Iterator[str | None]:
    """Yield what stands around the pages: in `_config.yml`, or marked where it is written."""
    root = book.root
    config = read_yaml(root / "_config.yml", root)
    yield config["title"]
    yield config["author"]
    yield config["html"]["extra_footer"]
    for part in read_yaml(root / "_toc.yml", root)["parts"]:
        yield part["caption"]

    for service in SERVICES:
        if service.translated:
            yield service.label
    for runner in book.portable_runners:
        yield from (runner.label, runner.legend, runner.clock_label)
    story = read_yaml(root / "book" / "front.yml", root)
    for version in story["versions"].values():
        yield version["title"]
        yield version["said"]

    yield from marked_words(root, MARKING)


def marked_words(root: Path, patterns: Iterable[str]) -> list[str]:
    """Return what tr() marks in files, sorted: code that moves changes no order."""
    words = set()
    for pattern in patterns:
        for path in root.glob(pattern):
            for match in MARKED.finditer(read_text(path, root)):
                words.add(match["said"])
    return sorted(words)
