"""The translations: what they must keep, what becomes stale, and how a language is added."""

# ruff: noqa: RUF001 -- Chinese has marks of its own

import re
import shutil

import pytest
from babel.messages.catalog import Message
from helpers import ROOT, assert_one_line, copy_code, read, run_tool

from tools.book.book import Book
from tools.book.notebooks import code_cells
from tools.environment import REQUIREMENTS
from tools.languages.checks import CHECKS, faults
from tools.languages.language import read_languages
from tools.languages.translated_book import TranslatedBook
from tools.languages.translations import po_text

LANGUAGES = read_languages(ROOT)
FOLDERS = "book cudasim/docs img kernels languages notebooks tools coursework".split()
FILES = ("_config.yml", "_toc.yml", *REQUIREMENTS)


@pytest.fixture
def book(tmp_path):
    """The book, less its outputs, to be changed."""
    root = tmp_path / "book"
    root.mkdir()
    for folder in FOLDERS:
        copy_code(root, folder)
    for name in FILES:
        shutil.copy(ROOT / name, root)
    return root


def sources(cells):
    return [(cell.id, cell.source) for cell in cells]


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_is_the_same_in_every_language(language):
    english = Book(ROOT).chapters
    translated = sorted((ROOT / "languages" / language / "notebooks").glob("*.ipynb"))
    assert translated
    for path in translated:
        cells = code_cells(read(path))
        assert sources(cells) == sources(english[path.stem].code_cells), path


# What may be done to a translation.


def replace(old, new):
    return lambda text: text.replace(old, new)


def add(words):
    return lambda text: text + words


def turn_around(text):
    return "\n".join(reversed(text.split("\n")))


def cut(text):
    return text[:6]


def write_english(text):
    return "It has to be on one device"


# By the check that names it: how an English text begins, and what spoils its translation.
SPOILT = {
    "number": ("It is worth the trouble.", replace("212", "221")),
    "negation": ("Two things are needed: a driver", replace("不", "")),
    "order": ("- in the host's memory", turn_around),
    "choice": ("**The first.** A new array is", replace("第一", "第二")),
    "link": ("A card's memory is the first", replace("-memory", "-time")),
    "code": ("`X.cuda(1)` does the same", replace("cpu()", "gpu()")),
    "formula": ("A bus in between is worth it", replace("^2", "^3")),
    "tag": ('<details class="choice right">\n<summary>Print', replace(" right", "")),
    "strong": ("**Copies are slow.**", replace("。** ", "。**")),
    "em": ("A *device* is a processor", replace("*", "")),
    "item": ("- another array with the same", replace("\n- ", "\n")),
    "heading": ("## Is there a GPU?", replace("## ", "# ")),
    "english": ("An operation is computed on", write_english),
    "term": ("This page is for students", add("图形处理器")),
    "writing": ("**What you will learn.** Where", replace("，", ", ")),
    "length": ("So name the device, and best", cut),
    "block": ("An array takes memory of its", replace("。", "。\n\n")),
    "letter": ("a few fast cores", add("翯")),
}


def check(book):
    return run_tool(book, "languages", "--check")


def spoilt_entries(language):
    """Yield the translations that SPOILT names, spoilt, each with the check that fails."""
    for name, (beginning, spoil) in SPOILT.items():
        for entry in language.catalog:
            if entry.id and entry.id.startswith(beginning):
                entry.string = spoil(entry.string)
                yield name, entry


def test_a_spoilt_translation_is_named(book):
    language = read_languages(book)["zh"]
    for _ in spoilt_entries(language):
        pass
    write_catalog(book, language)
    run = check(book)
    assert run.returncode == 1
    failed = re.findall(r"^languages/zh\.po: \S+: '.+': (\w+): .+$", run.stderr, re.M)
    assert set(failed) >= set(SPOILT)
    assert set(SPOILT) <= CHECKS


def test_a_comment_drops_any_check():
    language = read_languages(ROOT)["zh"]
    for name, entry in spoilt_entries(language):
        assert name in failed_checks(entry, language)
        entry.user_comments = [f"unlike: {name}"]
        assert name not in failed_checks(entry, language)


def test_a_comment_that_names_no_check_is_refused():
    language = read_languages(ROOT)["zh"]
    entry = Message("A card.", "一张卡。", user_comments=["unlike: negations"])
    entry.context = "book/preface"
    [fault] = faults(entry, language)
    assert fault.check == "unlike"
    assert_one_line(fault.words, "no check: 'negations'", "use one of", "negation,")


def failed_checks(entry, language):
    return [fault.check for fault in faults(entry, language)]


def write_catalog(book, language):
    text = po_text(language.catalog)
    (book / language.where).write_text(text, encoding="utf-8")


def untranslated(book):
    """Return the lines of the command that name a text without its translation."""
    lines = run_tool(book, "languages").stdout.splitlines()
    return {line for line in lines if line.endswith("not translated as it is")}


OLD, NEW = "This page is for students", "This page is for anybody"


def test_an_edit_makes_only_its_own_translations_stale(book):
    page = book / "book" / "handing-in.md"
    before = untranslated(book)
    page.write_text(page.read_text("utf-8").replace(OLD, NEW))
    stale = untranslated(book) - before
    assert len(stale) == len(LANGUAGES)
    for line in stale:
        assert f"'{NEW}" in line

    for language in read_languages(book).values():
        [entry] = [entry for entry in language.catalog if NEW in entry.id]
        # The translation is kept for someone to look at.
        assert entry.fuzzy
        assert "GPU" in entry.string
        translated = TranslatedBook(book, language=language)
        text = translated.text("book/handing-in", page.read_text("utf-8"))
        assert NEW in text
        assert "You have a link" not in text

    # Whoever edits the English is told, and not held up.
    run = check(book)
    assert run.returncode == 0, run.stderr


@pytest.mark.full
def test_a_language_begins_with_one_page(book):
    settings = book / "languages" / "languages.yml"
    esperanto = "  eo:\n    name: Esperanto\n    locale: eo\n"
    settings.write_text(settings.read_text("utf-8") + esperanto)
    assert run_tool(book, "languages").returncode == 0
    language = read_languages(book)["eo"]
    for entry in language.catalog:
        if entry.id == "# Computing devices":
            entry.string = "# Komputiloj"
    write_catalog(book, language)
    assert run_tool(book, "languages").returncode == 0
    [path] = (book / "languages" / "eo").rglob("*.ipynb")
    title, links, *_ = read(path).cells
    assert title.source.startswith("# Komputiloj\n\n**How long.**")
    assert "languages/eo/notebooks/computing-devices.ipynb" in links.source


BAD_FILES = [
    ("languages/zh.po", 'msgid "a"\nmsgstr "b\n', "line 2: not whole: msgstr"),
    ("languages/languages.yml", "pages: []\n", "lacks 'languages:'"),
]


@pytest.mark.parametrize(("path", "text", "reason"), BAD_FILES)
def test_a_bad_file_is_one_line(book, path, text, reason):
    (book / path).write_text(text)
    run = run_tool(book, "languages")
    assert run.returncode == 1
    assert_one_line(run.stderr, f"{path}: {reason}")
    assert (book / path).read_text() == text
