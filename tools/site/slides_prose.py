"""Text of a chapter as slides show it: the sentences that carry it, in large letters.

A paragraph is cut to its first sentences, some two lines of them, to those in which a word is set
off, as terms are, and to the one that leads to a list or a program. Lists, formulas,
tables and figures stay. The whole text is in the speaker's notes.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from pathlib import Path

from docutils import nodes
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from tools.site.formulas import draw
from tools.site.images import inline

# Pixels of a slide, which is 1280 x 720; book/slides/deck.css has the same sizes.
ROOM = 552  # below the head of a slide
LINE, LETTERS = 40, 74  # a line of text, and how many letters it holds
GAP = 14  # between two blocks
CODE, COLUMNS = 33, 76  # a line of code
ROW, ROW_LETTERS = 36, 86  # a line in a table, and how many letters it holds
FORMULA = 80
CAPTION = 48
SHORT = 80  # letters: sentences are kept until there are so many

SENTENCE = re.compile(r"(?<=[.?!])(?=\s)")
FIGURE = re.compile(r"\.\./img/([\w.-]+\.svg)")
OUTSIDE = ("http://", "https://")
FORMATTER = HtmlFormatter(nowrap=True)


@dataclass(frozen=True)
class Block:
    """A part of a slide that is not divided, and the pixels that it takes at most."""

    html: str
    height: float
    alone: bool = False  # a figure has a slide of its own


class Prose:
    """Draws the text cells of one chapter, with its figures from `img/`."""

    def __init__(self, root: Path) -> None:
        """`root` is the folder of the book."""
        self._root = root
        self._figures = 0
        self._parser = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)
        rules = {
            "link_open": self._link_open,
            "link_close": self._link_close,
            "image": self._image,
            "fence": self._fence,
            "math_inline": self._formula,
            "math_block": self._formula_block,
        }
        for name, rule in rules.items():
            self._parser.add_render_rule(name, lambda _, *rest, rule=rule: rule(*rest))

    def whole(self, text: str) -> str:
        """All of a text as HTML, for the notes: what a figure shows is said in words."""
        tokens = self._parser.parse(text)
        for token in tokens:
            for child in token.children or []:
                if child.type == "image":
                    child.type, child.tag = "text", ""
        return self._html(tokens).strip()

    def line(self, text: str) -> str:
        """A heading, or another single line, as HTML."""
        return self._parser.renderInline(text)

    def blocks(self, text: str, whole: bool = False) -> Iterator[Block]:
        """The blocks of a text, cut to what a slide shows unless they are to be `whole`."""
        tree = SyntaxTreeNode(self._parser.parse(text))
        several = list(tree.children)
        for node, following in zip_longest(several, several[1:]):
            if node.type == "paragraph" and _is_figure(node):
                yield Block(f'<div class="picture">{self._draw(node)}</div>', ROOM, alone=True)
            elif node.type == "paragraph":
                leads = following is not None and following.type not in ("paragraph", "heading")
                yield self._text(node, "<p>", "</p>", whole, leads)
            elif node.type in ("bullet_list", "ordered_list"):
                yield from self._list(node, whole)
            elif node.type == "table":
                yield Block(self._draw(node), _table_height(node))
            elif node.type == "fence":
                yield Block(self._draw(node), code_height(node.content))
            elif node.type == "math_block":
                yield Block(self._draw(node), FORMULA + GAP)
            elif node.type == "html_block":  # drawn elsewhere, or a fold
                continue
            else:
                yield Block(self._draw(node), LINE + GAP)

    def _list(self, node: SyntaxTreeNode, whole: bool) -> Iterator[Block]:
        """A block for each item, so that a long list can go on on the next slide."""
        for number, item in enumerate(node.children, start=node.attrs.get("start", 1)):
            opening = f'<ol start="{number}">' if node.type == "ordered_list" else "<ul>"
            parts = []
            for each in item.children:
                if each.type == "paragraph":
                    parts.append(self._text(each, "", "", whole, leads=False))
                else:
                    parts += [block for block in [*self.blocks_of(each, whole)]]
            inner = "\n".join(part.html for part in parts)
            height = sum(part.height for part in parts) - GAP * (len(parts) - 1) - GAP / 2
            yield Block(f"{opening}<li>{inner}</li></{opening[1:3]}>", height)

    def blocks_of(self, node: SyntaxTreeNode, whole: bool) -> Iterator[Block]:
        """The blocks of what stands in an item of a list below its first paragraph."""
        if node.type in ("bullet_list", "ordered_list"):
            yield from self._list(node, whole)
        elif node.type == "fence":
            yield Block(self._draw(node), code_height(node.content))
        else:
            yield Block(self._draw(node), LINE + GAP)

    def _text(
        self, node: SyntaxTreeNode, opening: str, closing: str, whole: bool, leads: bool
    ) -> Block:
        inline_token = node.children[0].token
        children = inline_token.children
        if not whole:
            children = [token for part in _kept(_sentences(children), leads) for token in part]
        html = self._parser.renderer.renderInline(children, self._parser.options, {}).strip()
        return Block(f"{opening}{html}{closing}", lines(_letters(children)) * LINE + GAP)

    def _draw(self, node: SyntaxTreeNode) -> str:
        return self._html(node.to_tokens()).strip()

    def _html(self, tokens: list[Token]) -> str:
        return self._parser.renderer.render(tokens, self._parser.options, {})

    def _link_open(self, tokens: list[Token], at: int, *_: object) -> str:
        """A link leads out of the deck, or it is words: a deck has no other page beside it."""
        address = tokens[at].attrGet("href")
        return f'<a href="{escape(address)}">' if address.startswith(OUTSIDE) else "<span>"

    def _link_close(self, tokens: list[Token], at: int, *_: object) -> str:
        depth = 0
        for token in reversed(tokens[: at + 1]):
            depth += {"link_close": 1, "link_open": -1}.get(token.type, 0)
            if not depth:
                return "</a>" if token.attrGet("href").startswith(OUTSIDE) else "</span>"
        raise AssertionError("a link is closed that was not opened")

    def _image(self, tokens: list[Token], at: int, *_: object) -> str:
        """A figure of `img/` as a part of the deck, lettered in its font."""
        name = FIGURE.fullmatch(tokens[at].attrGet("src"))[1]
        drawing = (self._root / "img" / name).read_text(encoding="utf-8")
        self._figures += 1
        return inline(drawing, tokens[at].content, ("100%", "100%"), f"figure{self._figures}-")

    def _fence(self, tokens: list[Token], at: int, *_: object) -> str:
        return program(tokens[at].content, tokens[at].info in ("python", "py"))

    def _formula(self, tokens: list[Token], at: int, *_: object) -> str:
        node = nodes.math("", tokens[at].content)
        return f'<span class="formula">{draw(node, inline=True)}</span>'

    def _formula_block(self, tokens: list[Token], at: int, *_: object) -> str:
        node = nodes.math_block("", tokens[at].content)
        return f'<div class="formula">{draw(node, inline=False)}</div>'


def program(code: str, python: bool = True) -> str:
    """A program as HTML, its words coloured if it is Python."""
    code = code.strip("\n")
    drawn = highlight(code, PythonLexer(), FORMATTER).rstrip("\n") if python else escape(code)
    return f'<pre class="code"><code>{drawn}</code></pre>'


def code_height(code: str) -> float:
    """The pixels that a program takes."""
    wrapped = sum(max(1, math.ceil(len(each) / COLUMNS)) for each in code.strip("\n").split("\n"))
    return wrapped * CODE + 24 + GAP


def lines(letters: int) -> int:
    """How many lines of text so many letters take."""
    return max(1, math.ceil(letters / LETTERS))


def joined(blocks: Iterable[str]) -> str:
    """Blocks one below the other; items of a list that follow one another become one list."""
    html = "\n".join(blocks)
    return re.sub(r"</ul>\n<ul>|</ol>\n<ol[^>]*>", "\n", html)


def _sentences(children: list[Token]) -> list[list[Token]]:
    """The tokens of a paragraph by sentence. What is set off or linked is never divided."""
    sentences, depth = [[]], 0
    for token in children:
        depth += token.nesting
        if token.type != "text" or depth:
            sentences[-1].append(token)
            continue
        first, *others = SENTENCE.split(token.content)
        sentences[-1].append(_text_token(first))
        sentences += [[_text_token(other)] for other in others]
    found = [part for part in sentences if _letters(part)]
    for part in found:
        if part[0].type == "text":
            part[0].content = part[0].content.lstrip()
    return found


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _kept(sentences: list[list[Token]], leads: bool) -> list[list[Token]]:
    """The sentences that a slide shows, in order."""
    keep, shown = set(), 0
    for number, sentence in enumerate(sentences):
        if shown < SHORT or _sets_off(sentence):
            keep.add(number)
        if number in keep and not _is_label(sentence):
            shown += _letters(sentence)
    if leads:
        keep.add(len(sentences) - 1)
    return [[*sentences[number], _text_token(" ")] for number in sorted(keep)]


def _sets_off(sentence: list[Token]) -> bool:
    """True if a word of it is a term, or it holds a formula."""
    return any(token.type in ("em_open", "strong_open", "math_inline") for token in sentence)


def _is_label(sentence: list[Token]) -> bool:
    """True for a sentence that is bold as a whole, such as "**What you need.**"."""
    kinds = [token.type for token in sentence if token.type != "text" or token.content.strip()]
    return kinds[:1] == ["strong_open"] and kinds[-1:] == ["strong_close"]


def _letters(tokens: list[Token]) -> int:
    """How many letters tokens draw, where one of code takes as much room as 1.2 of text."""
    count = sum(len(token.content.strip("\n")) for token in tokens if token.type != "code_inline")
    code = sum(len(token.content) for token in tokens if token.type == "code_inline")
    return math.ceil(count + 1.25 * code)


def _is_figure(node: SyntaxTreeNode) -> bool:
    children = node.children[0].children
    return len(children) == 1 and children[0].type == "image"


def _table_height(node: SyntaxTreeNode) -> float:
    """The pixels that a table takes, whose columns share the width by what they hold."""
    rows = [
        [_letters(cell.children[0].token.children or []) if cell.children else 0 for cell in row]
        for row in (row.children for part in node.children for row in part.children)
    ]
    columns = [max(column) for column in zip(*rows, strict=True)]
    spare = ROW_LETTERS - 2 * len(columns)  # less what is between them
    wide = [max(6, spare * each / max(spare, sum(columns))) for each in columns]
    high = [max(math.ceil(c / w) for c, w in zip(row, wide, strict=True)) or 1 for row in rows]
    return sum(count * ROW + 14 for count in high) + GAP
