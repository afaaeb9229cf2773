"""Decks as files: each holds all that it needs, so it opens from a disk, with no network."""

import base64
import re
import shutil
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pygments.formatters import HtmlFormatter
from tqdm import tqdm

from tools.page.fonts import characters
from tools.slides.deck import Deck, make_deck
from tools.source.book import Book
from tools.source.files import read_text, write_text

DECKS = "_build/slides"
PARTS, STATIC = "book/slides", "book/static"
FACE = re.compile(r"@font-face \{[^}]*\}\n")
FILE = re.compile(r"url\(([\w-]+\.woff2)\)")
NAMED = re.compile(r"--(?:colour|on)-\w+: #\w+;")  # the colours that mean something
CODE = {"light": "a11y-high-contrast-light", "dark": "a11y-high-contrast-dark"}


def write_decks(book: Book) -> Path:
    """Write the deck of each chapter and an index of them; returns the index.

    Raises BookError if a page cannot be drawn, or nothing can be written.
    """
    folder = book.root / DECKS
    shutil.rmtree(folder, ignore_errors=True)
    made = []
    for chapter in tqdm(book.chapters.values(), "slides", leave=False):
        deck = make_deck(chapter, book)
        path = folder / f"{deck.chapter.name}.html"
        write_text(path, deck_page(deck, book), book.root)
        made.append((deck, round(path.stat().st_size / 1024)))
    write_text(folder / "index.html", index_page(made, book), book.root)
    return folder / "index.html"


def deck_page(deck: Deck, book: Book) -> str:
    """The file of one deck."""
    parts = book.root / PARTS
    texts = {
        "reveal_css": "reveal/reveal.css",
        "reveal_js": "reveal/reveal.js",
        "notes_js": "reveal/notes.js",
        "early_js": "early.js",
        "deck_js": "deck.js",
    }
    words = {name: read_text(parts / file, book.root) for name, file in texts.items()}
    groups = deck.groups
    shown = "".join(part for slide in deck.slides for part in [slide.head, *slide.blocks])
    return _template("deck.html", book).render(
        title=deck.chapter.title,
        groups=groups,
        runners=deck.recordings,
        css=_style(shown, book),
        **_names(book),
        **{name: text.replace("</script", "<\\/script") for name, text in words.items()},
    )


def index_page(made: list[tuple[Deck, int]], book: Book) -> str:
    """The list of all decks, with the KiB of each."""
    css = _style("".join(deck.chapter.title for deck, _ in made), book)
    return _template("index.html", book).render(decks=made, css=css, **_names(book))


def _names(book: Book) -> dict[str, str]:
    icon = base64.b64encode((book.root / "img" / "favicon.svg").read_bytes()).decode()
    return {"book": "Where Tensors Live", "icon": f"data:image/svg+xml;base64,{icon}"}


def _template(name: str, book: Book) -> object:
    loader = FileSystemLoader(book.root / PARTS)
    return Environment(loader=loader, undefined=StrictUndefined).get_template(name)


def _style(text: str, book: Book) -> str:
    """The style of a page that shows `text`: the book's fonts and colours, then its own."""
    static = book.root / STATIC
    named = NAMED.findall(read_text(static / "book.css", book.root))
    parts = [_fonts(text, static / "fonts", book), f":root {{{' '.join(named)}}}"]
    parts += [read_text(static / "timeline.css", book.root)]
    for theme, style in CODE.items():
        prefix = f'[data-theme="{theme}"] pre.code'
        parts += HtmlFormatter(style=style).get_token_style_defs(prefix)
    parts += [read_text(book.root / PARTS / "deck.css", book.root)]
    return "\n".join(parts)


def _fonts(text: str, folder: Path, book: Book) -> str:
    """The faces that `text` needs, within the style sheet."""
    codes, faces = set(map(ord, text)), []
    for rule in FACE.findall(read_text(folder / "fonts.css", book.root)):
        file = FILE.search(rule)
        if file and codes & characters(re.search(r"unicode-range: ([^;]+);", rule)[1]):
            font = base64.b64encode((folder / file[1]).read_bytes()).decode()
            faces.append(rule.replace(file[0], f"url(data:font/woff2;base64,{font})"))
    return "".join(faces)
