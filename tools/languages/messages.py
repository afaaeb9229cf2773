"""What of the book is to be translated, in messages: one is a block of a text, never less.

A message has a context, which says where it stands: `computing-devices#predict-bus` is a cell of a
chapter, `book/preface` a page, `img/ring.svg` a figure. In each text the messages are replaced in
place, so that all between them stays as it is, byte for byte.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from html import escape, unescape

from tools.book import links
from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import FIGURE, named_figures
from tools.book.grammar import LINKS_CELL, SETUP
from tools.book.notebooks import tags
from tools.files import read_text, read_yaml
from tools.languages.language import Language

SITE, SET_UP = "site", "setup"  # contexts of what stands around pages, and of the set-up cells
# Where what the site says is marked by tr(), in Python, in templates and in scripts.
MARKING = ("tools/site/*.py", "book/templates/*.*", "book/static/*.js")
MARKED = re.compile(r"\btr\(\s*(?P<quote>[\"'])(?P<said>.+?)(?P=quote)[,)]", re.S)

Say = Callable[[str, str], str]  # a context and a message in English: what to say instead

# A block ends at an empty line. Code in fences, and what stands before a page, are not text.
APART = re.compile(r"\A---\n.*?\n---\n|^(?P<fence>`{3,}).*?^(?P=fence)`*$|\n\s*\n", re.M | re.S)
# What belongs to no language: code, formulas, where links lead, tags, directives, comments.
NO_TEXT = re.compile(
    r"(`+).+?\1|<code>.*?</code>|\$[^$]+\$|\]\([^)]*\)|<[^>]*>|\{[^{}]*\}|&\w+;"
    r"|^:{3,}[^\n]*|^%[^\n]*",
    re.M | re.S,
)
LETTERS = re.compile(r"[^\W\d_]{2}")
LETTERING = re.compile(r"(?<=>)[^<>]*[^\W\d_]{2}[^<>]*(?=</(?:text|tspan|title|desc)>)")
# What a set-up says: its title, and what it prints or raises.
SAID = re.compile(r"(# @title |(?:NotReady|print)\(f?(?P<quote>['\"]))(.+?)(?=(?P=quote)|$)", re.M)
SERVICES = re.compile(r"(?<=: )\[.*\)(?=\.\n)")  # of a chapter: each language has its own links


class Messages(dict[tuple[str, str], None]):
    """Contexts and messages, in order, each once."""

    def note(self, context: str, message: str) -> str:
        self[context, message] = None
        return message


def translate_text(text: str, context: str, say: Say) -> str:
    """A text in Markdown, with what `say` says in the place of each of its messages."""

    def translated(block: str) -> str:
        message = block.strip()
        is_text = LETTERS.search(NO_TEXT.sub("", message))
        return block.replace(message, say(context, message)) if is_text else block

    made, end = [], 0
    for apart in APART.finditer(text):
        made += translated(text[end : apart.start()]), apart[0]
        end = apart.end()
    return "".join([*made, translated(text[end:])])


def translate_drawing(drawing: str, context: str, say: Say) -> str:
    """A figure, lettered anew."""

    def lettered(found: re.Match) -> str:
        return escape(say(context, unescape(found[0])), quote=False)

    return LETTERING.sub(lettered, drawing)


def translate_chapter(chapter: Chapter, say: Say) -> Chapter:
    """A chapter with its texts, and what stands beside its code, in other words; figures are named,
    not drawn. Code stays as it is, but for what the set-up says."""
    notebook = deepcopy(chapter.notebook)
    for cell in notebook.cells:
        context = f"{chapter.page}#{cell.id}"
        if cell.cell_type == "markdown":
            text = named_figures(cell.source)
            row = SERVICES.search(text)[0] if cell.id == LINKS_CELL else "{links}"
            text = translate_text(text.replace(row, "{links}"), context, say)
            cell.source = text.replace("{links}", row)
        elif SETUP in tags(cell):
            cell.source = SAID.sub(lambda found: found[1] + say(SET_UP, found[3]), cell.source)
        about = cell.metadata.get("mystnb", {})
        for holder, name in ((about, "code_prompt_show"), (about.get("image", {}), "alt")):
            if name in holder:
                holder[name] = say(context, holder[name])
    return Chapter(chapter.name, notebook)


def messages_of(document: str, book: Book) -> Messages:
    """What is to be translated of a document that `_toc.yml` lists, its title first."""
    folder, _, name = document.partition("/")
    found = Messages()
    if folder == "notebooks":
        for chapter in book.editions(name):
            translate_chapter(chapter, found.note)
    else:
        translate_text(read_text(book.root / f"{document}.md", book.root), document, found.note)
    return found


def all_messages(book: Book, languages: Iterable[Language]) -> Messages:
    """What is to be translated: pages, the figures that they show, and what stands around them."""
    found = Messages()
    for page in dict.fromkeys(page for language in languages for page in language.pages):
        found |= messages_of(page, book)
    shown = [m["svg"] for _, message in found for m in FIGURE.finditer(message)]
    for svg in dict.fromkeys(shown):
        translate_drawing(read_text(book.root / "img" / svg, book.root), f"img/{svg}", found.note)
    for message in filter(None, said_by_site(book)):
        found.note(SITE, message)
    return found


def said_by_site(book: Book) -> Iterator[str | None]:
    """What stands around the pages: in the site's settings, or marked where it is written."""
    root = book.root
    settings = read_yaml(root / "_config.yml", root)
    yield from (settings["title"], settings["author"], settings["html"]["extra_footer"])
    yield from (part["caption"] for part in read_yaml(root / "_toc.yml", root)["parts"])
    yield from (service.label for service in links.SERVICES if service.translated)
    for runner in book.local_runners:
        yield from (runner.label, runner.legend, runner.times)
    for name, version in read_yaml(root / "book" / "front.yml", root)["versions"].items():
        yield from (name.partition(" ")[2], version["said"])
    for path in [path for pattern in MARKING for path in sorted(root.glob(pattern))]:
        yield from (match["said"] for match in MARKED.finditer(read_text(path, root)))
