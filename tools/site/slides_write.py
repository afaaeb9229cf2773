"""Decks as files: each holds all that it needs, so it opens from a disk, with no network."""

import base64
import re
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from pygments.formatters import HtmlFormatter
from tqdm import tqdm

from tools.book.book import Book
from tools.files import read_text, write_text
from tools.site.fonts import characters
from tools.site.slides_deck import Deck, make_deck

DECKS = "_build/slides"
PARTS, STATIC = "book/slides", "book/static"
FACE = re.compile(r"@font-face \{[^}]*\}\n")
FILE = re.compile(r"url\(([\w-]+\.woff2)\)")
NAMED = re.compile(r"--(?:colour|on)-\w+: #\w+;")  # the colours that mean something
CODE = {"light": "a11y-high-contrast-light", "dark": "a11y-high-contrast-dark"}


def write_decks(book: Book, root: Path | None = None) -> Path:
    """Write the deck of each chapter and an index of them; returns the index.

    They go below `root`, which is the book's own unless it is given. Raises BookError if a page
    cannot be drawn, or nothing can be written.
    """
    root = root or book.root
    folder, made = root / DECKS, []
    for chapter in tqdm(book.chapters.values(), "slides", leave=False, disable=None):
        deck = make_deck(chapter, book)
        path = folder / f"{chapter.name}.html"
        write_text(path, deck_page(deck, book), root)
        made.append((deck, round(path.stat().st_size / 1024)))
    index = folder / "index.html"
    write_text(index, index_page(made, book), root)
    kept = {index.name, *(f"{deck.chapter.name}.html" for deck, _ in made)}
    for path in folder.iterdir():  # decks of chapters that are gone
        if path.name not in kept:
            path.unlink()
    return index


def deck_page(deck: Deck, book: Book) -> str:
    """The file of one deck."""
    parts = book.root / PARTS
    texts = {
        "reveal_css": "reveal/reveal.css",
        "reveal_js": "reveal/reveal.js",
        "notes_js": "reveal/notes.js",
        "licence": "reveal/LICENSE",
        "early_js": "early.js",
        "deck_js": "deck.js",
    }
    words = {name: read_text(parts / file, book.root) for name, file in texts.items()}
    shown = "".join(
        text for slide in deck.slides for text in [slide.head, *slide.blocks, *slide.notes]
    )
    return _template("deck.html", book).render(
        title=deck.chapter.title,
        groups=deck.groups,
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
    title = yaml.safe_load(read_text(book.root / "_config.yml", book.root))["title"]
    return {"book": title, "icon": f"data:image/svg+xml;base64,{icon}"}


def _template(name: str, book: Book) -> Template:
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
