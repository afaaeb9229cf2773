"""The translations: what they must keep, what becomes stale, and how a language is added."""

# ruff: noqa: RUF001 -- Chinese has marks of its own

import re
import shutil

import pytest
from helpers import ROOT, assert_one_line, copy_code, read, run_tool

from tools.book.book import Book
from tools.book.chapters import SETUP
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
    for folder in ("book", "img", "kernels", "languages", "notebooks", "tools"):
        copy_code(root, folder)
    for name in ("_config.yml", "_toc.yml", "requirements.txt", "requirements-no-deps.txt"):
        shutil.copy(ROOT / name, root)
    return root


def test_code_is_the_same_byte_for_byte_in_every_language():
    english = Book(ROOT).chapters
    for code, language in LANGUAGES.items():
        written = sorted((ROOT / "languages" / code / "notebooks").glob("*.ipynb"))
        made = Edition(ROOT, language=language).notebooks()
        assert written == sorted(made)
        for path in written:
            own = [cell for cell in code_cells(read(path)) if SETUP not in tags(cell)]
            kept = english[path.stem].keyed_cells
            assert [(c.id, c.source) for c in own] == [(c.id, c.source) for c in kept], path


SPOILT = {  # by the check that names it: a piece of a translation, and what is made of it
    "number": ("快了 [212 倍]", "快了 [221 倍]"),
    "negation": (
        "你*不*需要 NVIDIA 的 CUDA 工具包，也不需要",
        "你*也*需要 NVIDIA 的 CUDA 工具包，也需要",
    ),
    "order": ("- 在主机的内存里\n- 在第一块 GPU 上\n", "- 在第一块 GPU 上\n- 在主机的内存里\n"),
    "choice": ("**第一个。** 新数组总在 CPU 上", "**第二个。** 新数组总在 CPU 上"),
    "link": ("(what-takes-memory.ipynb)。", "(what-takes-time.ipynb)。"),
    "code": ("`X.cpu()` 复制到主机", "`X.gpu()` 复制到主机"),
    "formula": ("$n^2$ 个结果，没有", "$n^3$ 个结果，没有"),
    "tag": ('<details class="choice right">\n<summary>打印其中', "<details>\n<summary>打印其中"),
    "strong": ("**复制很慢。** T4", "**复制很慢。**T4"),
    "em": ("*设备*是一个处理器和它身边", "设备是一个处理器和它身边"),
    "item": ("\n- `Z` 本身\n", "\n`Z` 本身\n"),
    "heading": ("## 有没有 GPU？", "# 有没有 GPU？"),
    "english": ("一次运算在一个设备上进行", "An operation is computed on one device"),
    "term": ("还没有真正的 GPU 运行过", "还没有真正的图形处理器运行过"),
    "writing": ("数组在哪里，两个数组", "数组在哪里, 两个数组"),
    "length": ("定。这样 GPU 直接把数字写进自己的显存，什么都不用传过去", "定"),
    "block": ("现在显卡怎么说？", "\n\n现在显卡怎么说？"),
    "letter": ("几个快的核心", "几个快的翯心"),
}


def spoil(root, code, changes):
    """Put each second piece in the place of the first, in all translations that hold it."""
    language = read_languages(root)[code]
    for old, new in changes:
        entries = [entry for entry in language.catalog if old in entry.string]
        assert entries, old
        for entry in entries:
            entry.string = entry.string.replace(old, new)
    (root / language.where).write_text(po_text(language.catalog), encoding="utf-8")


def test_a_spoilt_translation_is_named_with_its_file_and_message(book):
    spoil(book, "zh", SPOILT.values())
    run = run_tool(book, "languages", "--check")
    assert run.returncode == 1
    found = re.findall(r"^languages/zh\.po: \S+: '.+': (\w+): .+$", run.stderr, re.M)
    assert set(found) >= set(SPOILT)


def test_an_edit_makes_its_own_translations_stale_and_no_other(book):
    page = book / "book" / "preface.md"
    page.write_text(page.read_text("utf-8").replace("You need not own a GPU.", "You need no GPU."))
    run = run_tool(book, "languages")
    stale = [line for line in run.stdout.splitlines() if "not translated" in line]
    assert len(stale) == len(LANGUAGES) and all("'You need no GPU." in line for line in stale)
    for language in read_languages(book).values():
        [entry] = [each for each in language.catalog if each.id and each.fuzzy]
        assert "GPU" in entry.string  # what it was is kept, for someone to look at
        text = Edition(book, language=language).text("book/preface", page.read_text("utf-8"))
        assert "You need no GPU." in text and "You name devices" not in text
    run = run_tool(book, "languages", "--check")
    assert run.returncode == 0, run.stderr  # who edits the English is told, and not held up


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
        ("languages/zh.po", 'msgid "a"\nmsgstr "b\n', "languages/zh.po: line 2: not whole: msgstr"),
        ("languages/languages.yml", "pages: []\n", "languages/languages.yml: lacks 'languages:'"),
    ],
)
def test_a_bad_file_is_one_line(book, path, text, says):
    (book / path).write_text(text)
    run = run_tool(book, "languages")
    assert run.returncode == 1
    assert_one_line(run.stderr, says)
    assert (book / path).read_text() == text
