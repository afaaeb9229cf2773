"""The deck of a chapter: which cells become slides, in what order, and what is uncovered when.

A section of the chapter is a group of slides. A text cell begins a slide, and the code below it
joins it if there is room; what a cell printed is uncovered by a step. A prediction has a slide of
its own before the one that answers it. Left out are the set-up, cells that only import, hidden
cells, the answers, checks and solutions of exercises, and what no slide can hold: the notes have
the whole text.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

from bs4 import BeautifulSoup
from nbformat import NotebookNode

from tools.book.book import Book
from tools.book.cells import drawn
from tools.book.chapters import HIDING, PREDICTED, SETUP, Chapter
from tools.book.links import CELL as LINKS
from tools.book.notebooks import tags
from tools.book.recordings import Recording
from tools.rules import predictions, questions
from tools.rules.exercises import ASKED, PART
from tools.rules.rules import ATTEMPT
from tools.site.merge import chapter_page, page_recordings
from tools.site.slides_printed import has_picture, printed
from tools.site.slides_prose import (
    GAP,
    LINE,
    ROOM,
    Block,
    Prose,
    code_height,
    joined,
    lines,
    program,
)

NOT_SHOWN = {LINKS, "legend", "overview"}  # of a page: for its readers
FOLD = re.compile(r"<details.*?</details>", re.S)
LITTLE = 310  # pixels: so little text is set larger
DENSE = 0.85  # of the usual size are the letters of what would not fit otherwise


@dataclass
class Slide:
    """One slide: its head and its blocks as HTML, its notes, and the cells that it shows."""

    name: str
    head: str
    kind: str = ""
    blocks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    used: float = 0  # pixels, of letters of the usual size
    dense: bool = False
    whole: bool = False  # true if nothing may join it

    def fits(self, height: float) -> bool:
        """True if so many more pixels are free."""
        return not self.whole and (self.used + height) * (DENSE if self.dense else 1) <= ROOM

    def squeeze(self, height: float) -> None:
        """Set its letters smaller if so many more pixels fit then, and do not fit now."""
        self.dense |= not self.fits(height) and (self.used + height) * DENSE <= ROOM

    @property
    def looks(self) -> str:
        """Its classes: what it is, and `large` if it has room for larger letters."""
        text = not re.search("<(?:pre|table|img|svg|figure)", self.body)
        size = "dense" if self.dense else "large" if text and self.used <= LITTLE else ""
        return " ".join(filter(None, ["slide", self.kind, size]))

    @property
    def body(self) -> str:
        """Its blocks, one below the other."""
        return joined(self.blocks)


@dataclass
class Deck:
    """The slides of one chapter, by group."""

    chapter: Chapter
    recordings: list[Recording]
    groups: list[list[Slide]] = field(default_factory=list)

    @property
    def slides(self) -> list[Slide]:
        """All of them, in order."""
        return [slide for group in self.groups for slide in group]


def make_deck(chapter: Chapter, book: Book) -> Deck:
    """The deck of a chapter. Raises BookError if its page cannot be drawn."""
    return _Maker(chapter, chapter_page(chapter, book), book).deck


class _Maker:
    """Goes through the cells of a page once, and lays slides."""

    def __init__(self, chapter: Chapter, page: NotebookNode, book: Book) -> None:
        self.prose = Prose(book.root)
        self.deck = Deck(chapter, page_recordings(chapter, book))
        self.head = escape(chapter.title)
        self.slide: Slide | None = None
        self.names: set[str] = set()
        cells = [cell for cell in page.cells if cell.id not in NOT_SHOWN]
        for number, cell in enumerate(cells):
            runs = []
            for following in cells[number + 1 :]:
                if "runner" not in following.metadata:
                    break
                runs.append(following)
            self.add(cell, runs)

    def add(self, cell: NotebookNode, runs: list[NotebookNode]) -> None:
        """Lay what a cell becomes. `runs` hold what it printed where runners differ."""
        part = PART.fullmatch(cell.id)
        if "runner" in cell.metadata:
            return
        if cell.cell_type == "code":
            if part:
                self.add_part(part[1], cell, runs)
            elif _is_shown(cell):
                self.add_code(cell, runs)
        elif part:
            if part[1] == "exercise":
                self.add_exercise(cell)
        elif cell.source.startswith("# "):
            self.add_title(cell)
        elif predictions.is_prediction(cell):
            self.add_prediction(cell)
        elif cell.source.startswith(questions.OPENINGS):
            self.add_question(cell)
        else:
            self.add_text(cell)

    def begin(self, name: str, kind: str = "", group: bool = False, head: str = "") -> Slide:
        """A new slide, in a new `group` if asked. Its name is the cell's, and unique."""
        number = next(i for i in range(1, 99) if _numbered(name, i) not in self.names)
        name = _numbered(name, number)
        self.names.add(name)
        self.slide = Slide(name, head or self.head, kind)
        if group:
            self.deck.groups.append([])
        self.deck.groups[-1].append(self.slide)
        return self.slide

    def put(self, block: Block, name: str) -> None:
        """Lay a block on the slide that is being made, or on a new one."""
        if block.height > ROOM:
            block = _shrunk(block)
        if (block.alone and self.slide.used) or not self.slide.fits(block.height):
            self.begin(name, "" if self.slide.kind in ("title", "section") else self.slide.kind)
        self.slide.blocks.append(block.html)
        self.slide.used += block.height
        self.slide.whole = block.alone

    def add_title(self, cell: NotebookNode) -> None:
        """The first slides: the title, what the chapter is about, and whose outputs it shows."""
        _, _, text = cell.source.partition("\n")
        self.begin("title", "title", group=True)
        self.begin("aims")
        for block in self.prose.blocks(text, whole=True):
            self.put(block, "aims")
        runners = self.deck.recordings
        self.begin("runners", head="Whose outputs these are")
        for each in runners:
            html = (
                f"<p><strong>{escape(each.label)}.</strong> {self.prose.line(each.runner.legend)} "
                f"Times are {escape(each.times)}.</p>"
            )
            letters = len(BeautifulSoup(html, "html.parser").get_text())
            self.put(Block(html, lines(letters) * LINE + GAP), "runners")

    def add_text(self, cell: NotebookNode) -> None:
        """A text cell begins a slide; a section begins a group."""
        text, opening = cell.source, re.match(r"(##+) (.+)\n*", cell.source)
        if opening:
            text = text[opening.end() :]
            self.head = self.prose.line(opening[2])
        section = opening is not None and opening[1] == "##"
        whole = "**Cause.**" in text or (opening is not None and opening[2] == "Summary")
        self.begin(cell.id, "section" if section else "", group=section)
        first = self.slide
        blocks = [
            block
            for block in self.prose.blocks(text, whole)
            if block.height <= ROOM or not block.html.startswith("<table")  # the notes have those
        ]
        figure = False
        for block in blocks:
            if figure and block.html.startswith("<p><em>"):  # the line below it
                self.slide.blocks.append(block.html.replace("<p>", '<p class="caption">', 1))
            else:
                self.put(block, cell.id)
            figure = block.alone
        said = self.prose.whole(text)
        if _words(said) != _words("".join(block.html for block in blocks)):  # else all is shown
            first.notes.append(said)

    def add_code(self, cell: NotebookNode, runs: list[NotebookNode]) -> None:
        """A cell: its code, and what it printed, on the same slide if both fit."""
        answers = PREDICTED in tags(cell)
        plotted = has_picture(cell, runs) and not answers
        code = Block(program(cell.source), code_height(cell.source))
        prints = bool(cell.outputs or runs)
        output = printed(cell, runs, self.prose, ROOM) if prints else Block("", 0)
        if output.height > ROOM:  # such as a table
            output = _shrunk(output)
        seen = False
        if answers:  # the question is above
            self.slide.squeeze(code.height)
            seen = self.slide.fits(code.height)
            if seen:
                self.slide.blocks.append(code.html)
            self.begin(cell.id, "answer")
        if seen and (output.alone or code.height + output.height > ROOM):
            pass  # the code is on the slide before
        elif plotted:
            self.begin_unless_empty(cell.id)
            self.slide.notes.append(code.html)
        else:
            together = code.height + (0 if output.alone else output.height)
            if not self.slide.fits(together):
                self.begin_unless_empty(cell.id)
            self.put(code, cell.id)
        if prints:
            with_code = not output.alone and self.slide.fits(output.height)
            step = "output fragment" if with_code else "output"  # or the next slide is the step
            html = f'<div class="{step}" data-cell="{cell.id}">\n{output.html}\n</div>'
            self.put(Block(html, output.height, output.alone), cell.id)
        self.slide.whole = True

    def begin_unless_empty(self, name: str) -> None:
        """A new slide, if something is on the one that is being made."""
        if self.slide.blocks:
            self.begin(name)

    def add_prediction(self, cell: NotebookNode) -> None:
        """What is asked, with letters to vote by."""
        self.begin(cell.id, "prediction")
        question, _, choices = cell.source.removeprefix(predictions.ASKS).partition("\n\n")
        blocks = [*self.prose.blocks(question, whole=True)]
        items = [*self.prose.blocks(choices, whole=True)]
        if items:
            inner = joined(item.html for item in items).removeprefix("<ul>").removesuffix("</ul>")
            height = sum(item.height + 2 for item in items) + GAP
            blocks.append(Block(f'<ol class="choices">{inner}</ol>', height))
        self.lay("Predict", blocks, cell.id)

    def lay(self, label: str, blocks: list[Block], name: str) -> None:
        """Blocks below a word that says what they are, on one slide if they can be."""
        self.slide.blocks.append(f'<p class="label">{label}</p>')
        self.slide.used += LINE
        self.slide.squeeze(sum(block.height for block in blocks))
        for block in blocks:
            self.put(block, name)

    def add_question(self, cell: NotebookNode) -> None:
        """A question, its choices, and with the next step the right one and its reason."""
        slide = self.begin(cell.id, "question")
        opening = next(each for each in questions.OPENINGS if cell.source.startswith(each))
        text = FOLD.sub("", cell.source.removeprefix(opening))
        asked = [*self.prose.blocks(text, whole=True)]
        items, height, reason = [], GAP, None
        for choice in drawn(cell)("details"):
            said = "".join(map(str, choice.find_all(True, recursive=False)[1:]))
            html = choice.summary.decode_contents()
            right = ' class="fragment custom right" data-fragment-index="0"'
            items.append(f"<li{right * questions.is_right(choice)}>{html}</li>")
            height += lines(1.1 * len(choice.summary.get_text())) * LINE + 10
            slide.notes.append(f"<p><em>{html}</em></p>{said}")
            if questions.is_right(choice):
                reason = Block(
                    f'<div class="fragment reason" data-fragment-index="0">{said}</div>',
                    lines(1.1 * len(questions.feedback(choice))) * LINE + GAP + 16,
                )
        choices = Block(f'<ol class="choices">{"".join(items)}</ol>', height)
        self.lay(opening.strip(" *."), [*asked, choices, reason], cell.id)
        self.slide.whole = True

    def add_exercise(self, cell: NotebookNode) -> None:
        """What is to be written, and when it holds; the hints are in the notes."""
        match = ASKED.match(cell.source)
        title = re.search(r"\d+\. ([^*\n]+)", match[0])[1].rstrip(".")
        kind = "Puzzle" if self.deck.chapter.holds_puzzles else "Exercise"
        self.head = f"{kind} {match['number']}. {self.prose.line(title)}"
        slide = self.begin(cell.id, "exercise")
        slide.notes += [str(fold) for fold in _opened(cell)]
        text = FOLD.sub("", cell.source[match.end() :]).strip()
        self.lay(match["level"], [*self.prose.blocks(text, whole=True)], cell.id)

    def add_part(self, part: str, cell: NotebookNode, runs: list[NotebookNode]) -> None:
        """Of an exercise's cells: what is given, and what that does. Never an answer or a check."""
        if part == "answer":
            code = Block(program(cell.source), code_height(cell.source))
            self.slide.squeeze(code.height)
            self.put(code, cell.id)
        if part == "shows" and (cell.outputs or runs):
            output = printed(cell, runs, self.prose, ROOM - LINE)
            self.begin(cell.id, "shows")
            html = f'<div class="output" data-cell="{cell.id}">\n{output.html}\n</div>'
            self.lay("Before there is an answer", [Block(html, output.height)], cell.id)
            self.slide.whole = True


def _is_shown(cell: NotebookNode) -> bool:
    """False for cells that a lecture passes over."""
    if {SETUP, *HIDING} & {*tags(cell)} or cell.source.strip() == ATTEMPT.strip():
        return False
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:  # a magic
        return True
    return not all(isinstance(node, ast.Import | ast.ImportFrom) for node in body)


def _opened(cell: NotebookNode) -> Iterable[BeautifulSoup]:
    """The hints of an exercise, unfolded."""
    for fold in drawn(cell)("details"):
        fold.name, fold.summary.name = "div", "strong"
        yield fold


def _shrunk(block: Block) -> Block:
    """A block that is too high, as large as fits a slide of its own."""
    zoom = ROOM / (block.height + GAP)
    return Block(f'<div style="zoom:{zoom:.2f}">\n{block.html}\n</div>', ROOM, alone=True)


def _words(html: str) -> str:
    return re.sub(r"<[^>]*>|\s", "", html)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
