"""The translations: what they must keep, what becomes stale, and how a language is added."""

# ruff: noqa: RUF001 -- Chinese has marks of its own

import re
import shutil

import pytest
from helpers import ROOT, assert_one_line, copy_code, read, run_tool

from tools.book.book import Book
from tools.book.grammar import SETUP
from tools.book.notebooks import code_cells, tags
from tools.languages.edition import Edition
from tools.languages.language import read_languages
from tools.languages.translations import po_text

LANGUAGES = read_languages(ROOT)


@pytest.fixture
def book(tmp_path):
    """The book, less its outputs, to be changed."""
    root = tmp_path / "book"
    root.mkdir()
    for folder in (
        "book",
        "img",
        "kernels",
        "languages",
        "notebooks",
        "tools",
        "coursework",
        "cudasim/docs",
    ):
        copy_code(root, folder)
    for name in (
        "_config.yml",
        "_toc.yml",
        "requirements.txt",
        "requirements-no-deps.txt",
    ):
        shutil.copy(ROOT / name, root)
    return root


def test_code_is_the_same_byte_for_byte_in_every_language():
    english = Book(ROOT).chapters
    for code in LANGUAGES:
        written = sorted((ROOT / "languages" / code / "notebooks").glob("*.ipynb"))
        assert written
        for path in written:
            own = [cell for cell in code_cells(read(path)) if SETUP not in tags(cell)]
            kept = english[path.stem].keyed_cells
            assert [(c.id, c.source) for c in own] == [
                (c.id, c.source) for c in kept
            ], path


SPOILT = {  # by the check that names it: how a message begins, and what spoils its translation
    "number": ("It is worth the trouble.", lambda said: said.replace("212", "221")),
    "negation": (
        "Two things are needed: a driver",
        lambda said: said.replace("不", ""),
    ),
    "order": ("- in the host's memory", lambda said: "\n".join(said.split("\n")[::-1])),
    "choice": (
        "**The first.** A new array is",
        lambda said: said.replace("第一", "第二"),
    ),
    "link": (
        "A card's memory is the first",
        lambda said: said.replace("-memory", "-time"),
    ),
    "code": ("`X.cuda(1)` does the same", lambda said: said.replace("cpu()", "gpu()")),
    "formula": ("A bus in between is worth it", lambda said: said.replace("^2", "^3")),
    "tag": (
        '<details class="choice right">\n<summary>Print',
        lambda s: s.replace(" right", ""),
    ),
    "strong": ("**Copies are slow.**", lambda said: said.replace("。** ", "。**")),
    "em": ("A *device* is a processor", lambda said: said.replace("*", "")),
    "item": (
        "- another array with the same",
        lambda said: said.replace("\n- ", "\n", 1),
    ),
    "heading": ("## Is there a GPU?", lambda said: said[1:]),
    "english": (
        "An operation is computed on",
        lambda said: "It has to be on one device",
    ),
    "term": ("No real GPU has run this book", lambda said: said + "图形处理器"),
    "writing": (
        "**What you will learn.** Where",
        lambda said: said.replace("，", ", "),
    ),
    "length": ("So name the device, and best", lambda said: said[:6]),
    "block": (
        "An array takes memory of its",
        lambda said: said.replace("。", "。\n\n"),
    ),
    "letter": ("a few fast cores", lambda said: said + "翯"),
}


def test_a_spoilt_translation_is_named_with_its_file_and_message(book):
    language = read_languages(book)["zh"]
    for begins, spoilt in SPOILT.values():
        entries = [
            each for each in language.catalog if each.id and each.id.startswith(begins)
        ]
        for entry in entries:
            entry.string = spoilt(entry.string)
    (book / language.where).write_text(po_text(language.catalog), encoding="utf-8")
    run = run_tool(book, "languages", "--check")
    assert run.returncode == 1
    found = re.findall(r"^languages/zh\.po: \S+: '.+': (\w+): .+$", run.stderr, re.M)
    assert set(found) >= set(SPOILT)


def untranslated(run):
    return {
        line
        for line in run.stdout.splitlines()
        if line.endswith("not translated as it is")
    }


def test_an_edit_makes_its_own_translations_stale_and_no_other(book):
    page, before = (
        book / "book" / "preface.md",
        untranslated(run_tool(book, "languages")),
    )
    page.write_text(
        page.read_text("utf-8").replace("You need not own a GPU.", "You need no GPU.")
    )
    stale = untranslated(run_tool(book, "languages")) - before
    assert len(stale) == len(LANGUAGES) and all(
        "'You need no GPU." in line for line in stale
    )
    for language in read_languages(book).values():
        [entry] = [each for each in language.catalog if "You need no GPU." in each.id]
        assert entry.fuzzy and "GPU" in entry.string  # kept, for someone to look at
        text = Edition(book, language=language).text(
            "book/preface", page.read_text("utf-8")
        )
        assert "You need no GPU." in text and "You name devices" not in text
    run = run_tool(book, "languages", "--check")
    assert run.returncode == 0, (
        run.stderr
    )  # who edits the English is told, and not held up


@pytest.mark.full
def test_a_language_begins_with_one_page(book):
    settings = book / "languages" / "languages.yml"
    settings.write_text(
        settings.read_text("utf-8") + "  eo:\n    name: Esperanto\n    locale: eo\n"
    )
    assert run_tool(book, "languages").returncode == 0
    language = read_languages(book)["eo"]
    for entry in language.catalog:
        if entry.id == "# Computing devices":
            entry.string = "# Komputiloj"
    (book / language.where).write_text(po_text(language.catalog), encoding="utf-8")
    assert run_tool(book, "languages").returncode == 0
    [path] = (book / "languages" / "eo").rglob("*.ipynb")
    title, links, *_ = read(path).cells
    assert title.source.startswith("# Komputiloj\n\n**How long.**")
    assert "languages/eo/notebooks/computing-devices.ipynb" in links.source


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (
            "languages/zh.po",
            'msgid "a"\nmsgstr "b\n',
            "languages/zh.po: line 2: not whole: msgstr",
        ),
        (
            "languages/languages.yml",
            "pages: []\n",
            "languages/languages.yml: lacks 'languages:'",
        ),
    ],
)
def test_a_bad_file_is_one_line(book, path, text, says):
    (book / path).write_text(text)
    run = run_tool(book, "languages")
    assert run.returncode == 1
    assert_one_line(run.stderr, says)
    assert (book / path).read_text() == text
