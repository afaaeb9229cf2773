"""What every chapter keeps to. Each rule returns the faults it finds; [] means it holds."""

import ast
import re
import unicodedata

import pytest
from helpers import CHAPTERS, ROOT, code, notebook, prose, read
from IPython.core.inputtransformer2 import TransformerManager

from tools.source.notebooks import code_cells, tags

OPENING = ("**What you will do.**", "**What you will learn.**", "**What you need.**")
REPOSITORY = {"book", "tools", "kernels", "tests", "helpers"}
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
NO_PROSE = re.compile(
    r"```.*?```|\$\$.*?\$\$|`[^`\n]*`|\$[^$\n]*\$|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)", re.S
)
PAGES = sorted(path.stem for path in (ROOT / "book").glob("*.md"))


def prose_of(chapter):
    return "\n\n".join(cell.source for cell in chapter.cells if cell.cell_type == "markdown")


def long_cells(chapter):
    shown = (cell for cell in code_cells(chapter) if "hide-input" not in tags(cell))
    return [cell.id for cell in shown if len(cell.source.splitlines()) > 12]


def wide_lines(chapter):
    """Lines that the page could show only by scrolling sideways."""
    shown = (cell for cell in code_cells(chapter) if "hide-input" not in tags(cell))
    return [line for cell in shown for line in cell.source.splitlines() if len(line) > 76]


def cells_that_may_raise(chapter):
    return [
        cell.id for cell in chapter.cells if any("raises-exception" in tag for tag in tags(cell))
    ]


def unchecked_cells(chapter):
    """Cells whose output is compared by nobody: nbval ignores it, and nothing is asserted."""
    ignored = (
        cell
        for cell in code_cells(chapter)
        if "nbval-ignore-output" in tags(cell) or "NBVAL_IGNORE_OUTPUT" in cell.source
    )
    return [cell.id for cell in ignored if not asserts(cell)]


def asserts(cell):
    return any(isinstance(node, ast.Assert) for node in ast.walk(python(cell)))


def python(cell):
    """The code of a cell as a syntax tree, its magics turned into calls."""
    return ast.parse(TransformerManager().transform_cell(cell.source))


def opening_faults(chapter):
    first = chapter.cells[0].source
    places = [first.find(words) for words in OPENING]
    good = first.startswith("# ") and -1 not in places and places == sorted(places)
    return [] if good else [f"the first cell opens without {OPENING}, in this order"]


def ending_faults(chapter):
    headings = re.findall(r"^## .*$", prose_of(chapter), re.M)
    if headings[-2:] != ["## Summary", "## Exercises"]:
        return [f"the last two sections are {headings[-2:]}"]
    exercises = re.split(
        r"^\*\*\d+\. ", prose_of(chapter).split("\n## Exercises\n")[1], flags=re.M
    )[1:]
    faults = [text[:40] for text in exercises if text.count("*It holds when*") != 1]
    return faults if len(exercises) >= 4 else [*faults, f"only {len(exercises)} exercises"]


def loud_marks(text):
    """Exclamation marks and emoji in prose; code, formulas and link targets are not prose."""
    plain = NO_PROSE.sub(" ", text)
    emoji = [sign for sign in plain if unicodedata.category(sign) == "So" or sign == "\ufe0f"]
    return re.findall(r".{0,20}!", plain) + emoji


def repository_imports(chapter):
    nodes = [node for cell in code_cells(chapter) for node in ast.walk(python(cell))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)]
    return [name for name in names if name.split(".")[0] in REPOSITORY | {""}]


def dead_links(text, folder):
    """Relative links of a page in `folder` that lead to no file, or to no heading of it."""
    dead = []
    for match in LINK.finditer(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)):
        path, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", path):  # http:, mailto:, data:
            continue
        target = folder / path
        if path and not target.is_file():
            dead.append(match["target"])
        elif anchor and anchor not in anchors(target if path else None, text):
            dead.append(match["target"])
    return dead


def anchors(path, text):
    """What a link may point at: explicit `(labels)=` and headings as a reader's URL spells them."""
    if path is not None:
        text = prose_of(read(path)) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    labels = re.findall(r"^\(([\w-]+)\)=$", text, re.M)
    headings = re.findall(r"^#+ +(.*?) *$", text, re.M)
    return {*labels, *(re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in headings)}


def links_of(chapter):
    return dead_links(prose_of(chapter), ROOT / "notebooks")


def noise_of(chapter):
    return loud_marks(prose_of(chapter))


# Each rule with a chapter that breaks it, to show that the rule is one.
RULES = {
    long_cells: [code("a", "x = 1\n" * 13)],
    wide_lines: [code("a", f"x = '{'y' * 80}'")],
    cells_that_may_raise: [code("a", "x = 1", tags=["raises-exception"])],
    unchecked_cells: [code("a", "x = 1  # assert", tags=["nbval-ignore-output"])],
    opening_faults: [prose("a", "# Title\n\n**What you need.** **What you will do.**")],
    ending_faults: [prose("a", "## Summary\n\n## Exercises\n\n**1. Recall.** Write it.")],
    noise_of: [prose("a", "Done!")],
    repository_imports: [code("a", "%time pass\nfrom tools.source import chapters")],
    links_of: [prose("a", "A [stream](../book/glossary.md#no-such-heading).")],
}


@pytest.mark.parametrize("name", CHAPTERS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_chapter_keeps_the_rule(rule, name):
    assert rule(read(ROOT / "notebooks" / f"{name}.ipynb")) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule_finds_the_chapter_that_breaks_it(rule):
    assert rule(notebook(*RULES[rule])) != []


@pytest.mark.parametrize("text", ["Look: \U0001f680", "A tick \u2705", "Now!", "Warm \u2600\ufe0f"])
def test_loud_marks_are_found(text):
    assert loud_marks(text) != []


@pytest.mark.parametrize(
    "text", ["`!ls` and $n!$", "![A figure](../img/a.svg)", "2 \u00d7 3 \u2192 6"]
)
def test_quiet_marks_pass(text):
    assert loud_marks(text) == []


@pytest.mark.parametrize("name", PAGES)
def test_links_of_page_lead_somewhere(name):
    text = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
    assert dead_links(text, ROOT / "book") == []


@pytest.mark.parametrize("target", ["../notebooks/none.ipynb", "none.md", "#no-such-heading"])
def test_dead_link_of_page_is_found(target):
    assert dead_links(f"# Title\n\n[there]({target})", ROOT / "book") == [target]
