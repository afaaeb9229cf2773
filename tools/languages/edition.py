"""The book in another language: the same chapters with the same code, in other words."""

import re
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import FIGURE, picture, png_facts, version
from tools.book.grammar import LINKS_CELL
from tools.book.links import services_row
from tools.book.notebooks import notebook_text
from tools.files import read_text
from tools.languages import messages
from tools.languages.language import FOLDER, Language

# A link to a neighbour, from `notebooks/`.
NEIGHBOUR = re.compile(r"(?<=\]\()(\.\./book/[\w-]+\.md|([\w-]+)\.ipynb)")


@dataclass(frozen=True)
class Edition(Book):
    """The book in `language`, where that has words of its own."""

    language: Language = field(kw_only=True, repr=False)

    @cached_property
    def english(self) -> Book:
        return Book(self.root)

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        return {name: self.chapter(chapter) for name, chapter in self.english.chapters.items()}

    def chapter(self, chapter: Chapter) -> Chapter:
        if f"notebooks/{chapter.page}" not in self.translated:
            return chapter
        made = messages.translate_chapter(chapter, self.language.say)
        say = partial(self.language.say, messages.SITE)
        english = services_row(made.where, self.repository)
        own = services_row(self.path(made), self.repository, say)
        for cell in made.notebook.cells:
            if cell.id == LINKS_CELL:
                cell.source = cell.source.replace(english, own)
        return made

    @cached_property
    def translated(self) -> list[str]:
        """The documents that are in its words: those whose titles are."""
        pages, said = self.language.pages, self.language.translation
        titles = {page: next(iter(messages.messages_of(page, self.english))) for page in pages}
        return [page for page, title in titles.items() if said(*title)]

    def text(self, document: str, text: str) -> str:
        """The text of a page in prose."""
        own = document in self.translated
        return messages.translate_text(text, document, self.language.say) if own else text

    def path(self, chapter: Chapter) -> str:
        own = f"notebooks/{chapter.page}" in self.translated
        return f"{FOLDER}/{self.language.code}/{chapter.where}" if own else chapter.where

    def notebooks(self) -> dict[Path, str]:
        """The text of every such notebook."""
        chapters = [c for c in self.chapters.values() if f"notebooks/{c.page}" in self.translated]
        return {self.root / self.path(chapter): self.notebook(chapter) for chapter in chapters}

    def notebook(self, chapter: Chapter) -> str:
        """A chapter that stands alone: with pictures of its figures, its links to services its own,
        and its neighbours where they are. A picture that the file holds is not drawn again."""
        path = self.root / self.path(chapter)
        old = FIGURE.finditer(path.read_text(encoding="utf-8")) if path.is_file() else ()
        held = {png_facts(m["png"]).get("Version"): m["png"] for m in old if m["png"]}

        def drawn(match: re.Match) -> str:
            drawing = read_text(self.root / "img" / match["svg"], self.root)
            drawing = messages.translate_drawing(drawing, f"img/{match['svg']}", self.language.say)
            if png := held.get(version(drawing)):
                return f"![{match['alt']}](data:image/png;base64,{png})"
            return picture(match["alt"], match["svg"], drawing, self.language.fonts)

        notebook = deepcopy(chapter.notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = NEIGHBOUR.sub(self.neighbour, FIGURE.sub(drawn, cell.source))
        return notebook_text(notebook)

    def neighbour(self, link: re.Match) -> str:
        if f"notebooks/{link[2]}" in self.translated:
            return link[0]
        return f"../../../{link[1].removeprefix('../') if not link[2] else f'notebooks/{link[1]}'}"
