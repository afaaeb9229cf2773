"""The translations: what they must keep, what becomes stale, and how a language is added."""

# ruff: noqa: RUF001 -- Chinese has marks of its own

import json
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
# Translations without a fault, by the check that a mistake in them is for.
TRANSLATIONS = json.loads(
    (ROOT / "tests/content/translations.json").read_text(encoding="utf-8")
)
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
SPOILS = {
    "number": replace("212", "221"),
    "negation": replace("不", ""),
    "order": turn_around,
    "choice": replace("第一", "第二"),
    "link": replace("-memory", "-time"),
    "code": replace("cpu()", "gpu()"),
    "formula": replace("^2", "^3"),
    "tag": replace(" right", ""),
    "strong": replace("。** ", "。**"),
    "em": replace("*", ""),
    "item": replace("\n- ", "\n"),
    "heading": replace("## ", "# "),
    "english": write_english,
    "term": add("图形处理器"),
    "writing": replace("，", ", "),
    "length": cut,
    "block": replace("。", "。\n\n"),
    "letter": add("翯"),
}


def check(book):
    return run_tool(book, "languages", "--check")


@pytest.fixture(params=SPOILS)
def spoilt(request):
    """A translation with a mistake, and the name of the check that finds it."""
    name = request.param
    pair = TRANSLATIONS[name]
    entry = Message(pair["english"], SPOILS[name](pair["chinese"]))
    entry.context = pair["context"]
    return name, entry


def test_a_spoilt_translation_is_named(spoilt):
    language = read_languages(ROOT)["zh"]
    name, entry = spoilt
    assert name in CHECKS
    assert name in failed_checks(entry, language)
    entry.string = TRANSLATIONS[name]["chinese"]
    assert name not in failed_checks(entry, language)


def test_the_command_names_a_spoilt_translation(book):
    language = read_languages(book)["zh"]
    entry = next(entry for entry in language.catalog if "1.0 times" in entry.id)
    entry.string = entry.string.replace("1.0", "1.1")
    write_catalog(book, language)
    run = check(book)
    assert run.returncode == 1
    assert re.search(r"^languages/zh\.po: \S+: '.+': number: .+$", run.stderr, re.M)


def test_a_comment_drops_any_check(spoilt):
    name, entry = spoilt
    entry.user_comments = [f"unlike: {name}"]
    assert name not in failed_checks(entry, read_languages(ROOT)["zh"])


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


OLD, NEW = "## What the checks promise", "## What the checks assure"


def translation(language, english):
    [entry] = [entry for entry in language.catalog if entry.id == english]
    return entry


def test_an_edit_makes_only_its_own_translations_stale(book):
    page = book / "book" / "handing-in.md"
    before = untranslated(book)
    languages = read_languages(book)
    old = {code: translation(languages[code], OLD).string for code in languages}
    page.write_text(page.read_text("utf-8").replace(OLD, NEW))
    stale = untranslated(book) - before
    assert len(stale) == len(LANGUAGES)
    for line in stale:
        assert f"'{NEW}" in line

    for code, language in read_languages(book).items():
        entry = translation(language, NEW)
        # The translation is kept for someone to look at.
        assert entry.fuzzy
        assert entry.string == old[code]
        translated = TranslatedBook(book, language=language)
        text = translated.text("book/handing-in", page.read_text("utf-8"))
        assert NEW in text
        assert "## Before you hand in" not in text

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
