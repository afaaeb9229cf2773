"""The book in another language: the same chapters with the same code, in other words."""

import re
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from tools.book.addresses import absolute_links, relative_links, with_texts
from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.figures import FIGURE, picture, png_facts, version
from tools.book.grammar import LINKS_CELL
from tools.book.notebooks import notebook_text
from tools.book.repository import services_row
from tools.files import read_text
from tools.languages import messages
from tools.languages.language import FOLDER, SITE_CONTEXT, Language


@dataclass(frozen=True)
class TranslatedBook(Book):
    """The book in `language`, where that has words of its own."""

    language: Language = field(kw_only=True, repr=False)

    @cached_property
    def english(self) -> Book:
        return Book(self.root)

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        chapters = self.english.chapters
        return {name: self.chapter(chapter) for name, chapter in chapters.items()}

    def chapter(self, chapter: Chapter) -> Chapter:
        """Return a chapter in the words of the language, or as it is."""
        if not self._has(chapter):
            return chapter
        relative = with_texts(
            chapter, lambda text: relative_links(text, chapter.page_name, self)
        )
        translated = messages.translate_chapter(relative, self.language.say)
        say = partial(self.language.say, SITE_CONTEXT)
        english_links = services_row(chapter.where, self.repository)
        translated_links = services_row(self.path(chapter), self.repository, say)
        for cell in translated.notebook.cells:
            if cell.id == LINKS_CELL:
                cell.source = cell.source.replace(english_links, translated_links)
        return translated

    @cached_property
    def translated(self) -> list[str]:
        """The documents that are in its words: those whose titles are."""
        documents = []
        for document in self.language.pages:
            context, title = next(iter(messages.messages_of(document, self.english)))
            if self.language.translation(context, title):
                documents.append(document)
        return documents

    def is_translated(self, document: str) -> bool:
        return document in self.translated

    def _has(self, chapter: Chapter) -> bool:
        return self.is_translated(f"notebooks/{chapter.page_name}")

    def text(self, document: str, text: str) -> str:
        """Return the text of a page in prose in the words of the language, or as it is."""
        if not self.is_translated(document):
            return text
        return messages.translate_text(text, document, self.language.say)

    def path(self, chapter: Chapter) -> str:
        if not self._has(chapter):
            return chapter.where
        return f"{FOLDER}/{self.language.code}/{chapter.where}"

    def notebooks(self) -> dict[Path, str]:
        """Return the text of every notebook that the language has of its own."""
        notebooks = {}
        for chapter in self.chapters.values():
            if self._has(chapter):
                notebooks[self.root / self.path(chapter)] = self.notebook(chapter)
        return notebooks

    def notebook(self, chapter: Chapter) -> str:
        """Return the text of a chapter that stands alone.

        It has pictures of its figures, and its links lead to its own language where that has
        the page. A picture that the file holds is not drawn again.
        """
        pictures = self._pictures_in(self.root / self.path(chapter))

        def drawn(match: re.Match) -> str:
            alt, svg = match["alt"], match["svg"]
            english = read_text(self.root / "img" / svg, self.root)
            drawing = messages.translate_drawing(
                english, f"img/{svg}", self.language.say
            )
            if png := pictures.get(version(drawing)):
                return f"![{alt}](data:image/png;base64,{png})"
            return picture(alt, svg, drawing, self.language.fonts)

        notebook = deepcopy(chapter.notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                with_figures = FIGURE.sub(drawn, cell.source)
                cell.source = self._addressed(with_figures, chapter)
        return notebook_text(notebook)

    def _pictures_in(self, path: Path) -> dict[str | None, str]:
        """Return the pictures that a file holds, by the version of their drawings."""
        if not path.is_file():
            return {}
        pictures = {}
        for match in FIGURE.finditer(path.read_text(encoding="utf-8")):
            if png := match["png"]:
                pictures[png_facts(png).get("Version")] = png
        return pictures

    def _addressed(self, text: str, chapter: Chapter) -> str:
        """Return a text whose links name pages of the site, in the language where it has them."""
        site = self.repository.site
        text = absolute_links(text, chapter.page_name, self.repository)
        for page in self.translated:
            english = f"]({site}{page}.html"
            text = text.replace(english, f"]({site}{self.language.code}/{page}.html")
        return text
