"""Links to services: one place names the repository, and everything agrees with it."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers import ROOT, cell, code, prose, refused, run_tool, write

from tools.book.book import Book
from tools.book.links import (
    INSTALLS,
    linked_chapter,
    notebook_links,
    readme_text,
    write_links,
)
from tools.book.repository import Repository, make_repository

# An address of a service, up to what ends it in Markdown, HTML or code.
ADDRESS = re.compile(
    r"https://(?:colab\.research\.google\.com/github/|studiolab\.sagemaker\.aws/import/"
    r"|(?:www\.)?kaggle\.com/kernels/|mybinder\.org/v2/|raw\.githubusercontent\.com/"
    r"|nbgitpuller\.readthedocs\.io/en/latest/link|[^\s)\"'`]*/git-pull\?)[^\s)\"'`]*"
)
GIT = re.compile(r"git\+(https://[^\s@'\"]+)@([^\s#'\"]+)")
TEXTS = [*ROOT.glob("*.md"), *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.ipynb")]


def addresses(text):
    return [unquote(address.replace("&amp;", "&")) for address in ADDRESS.findall(text)]


def strangers(text, repository):
    slug, branch = f"{repository.owner}/{repository.name}", repository.branch
    return [
        address
        for address in addresses(text)
        if not re.search(rf"[/=]{slug}[/?&]", address)
        or not re.search(rf"[/=]{branch}\b", address)
    ] + [found for found in GIT.findall(text) if found != (repository.url, branch)]


def test_this_book_agrees_with_the_one_place():
    """Every chapter and `README.md` are as the command writes them, and no text strays."""
    book = Book(ROOT)
    for chapter in book.chapters.values():
        assert linked_chapter(chapter, book) == chapter
        metadata = chapter.notebook.metadata
        assert (metadata.accelerator, metadata.colab.gpuType) == (
            "GPU",
            "T4",
        )  # for Colab
        assert (
            metadata.kernelspec.name == "python3"
        )  # the one kernel that every service has
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_text(list(book.chapters.values()), book) == readme
    for path in [*TEXTS, *(ROOT / name for name in INSTALLS)]:
        assert strangers(path.read_text(encoding="utf-8"), book.repository) == [], path


WITHOUT_HUB = Path(__file__).with_name("addresses.txt").read_text(encoding="utf-8")


def test_addresses_are_of_the_form_that_each_service_documents():
    path, branch = "notebooks/first.ipynb", "next/one"
    urls = [link.url for link in notebook_links(path, make_repository("a/b", branch))]
    assert urls == WITHOUT_HUB.splitlines()
    assert len(strangers(WITHOUT_HUB, make_repository("a/b", "main"))) == len(urls)
    hub = make_repository("a/b", branch, "https://hub.example.org/class/")
    [own] = [
        link.url for link in notebook_links(path, hub) if link.label == "JupyterHub"
    ]
    address = "https://hub.example.org/class/hub/user-redirect/git-pull"
    assert own == urls[4].replace(
        "https://nbgitpuller.readthedocs.io/en/latest/link.html", address
    )


CONFIG = "repository: {{url: https://github.com/a/{}, branch: {}, hub: {}}}"


def test_command_names_the_repository_everywhere(linked_book):
    config = linked_book / "_config.yml"
    named = (
        config.read_text()
        .replace("someone/tiny", "other/book")
        .replace("main", "trunk")
    )
    config.write_text(named)
    run = run_tool(linked_book, "links")
    folders, names = ("notebooks", "outputs/cpu"), ("first", "second")
    paths = [
        "README.md",
        *(f"{folder}/{name}.ipynb" for folder in folders for name in names),
    ]
    assert sorted(run.stdout.splitlines()) == [f"{path}: written" for path in paths]
    repository = Repository("other", "book", "trunk")
    readme = (linked_book / "README.md").read_text()
    assert readme.endswith("<!-- end -->\n\nThe end.\n")
    assert len(addresses(readme)) == len(names)
    assert strangers(readme, repository) == []
    for path in linked_book.glob("notebooks/*"):
        text = path.read_text()
        assert len(addresses(text)) >= 6
        assert strangers(text, repository) == []
    book = Book(linked_book)
    for recording in book.recordings["cpu"].values():
        setup = cell(recording.chapter.notebook, "setup").source
        assert recording.cells["setup"].source == setup
        assert recording.stale_because(book.pins) is None
    assert write_links(book) == []


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("_config.yml", "a: [", "not valid YAML; correct it there"),
        (
            "_config.yml",
            CONFIG.format("b/c", "main", "none"),
            "repository 'a/b/c': not",
        ),
        ("_config.yml", CONFIG.format("b", "my branch", "none"), "branch 'my branch'"),
        ("_config.yml", CONFIG.format("b", "main", "h.org"), "hub 'h.org': write"),
        ("README.md", "# Tiny\n", "<!-- links -->"),
        ("requirements-no-deps.txt", "", "lacks"),
    ],
)
def test_broken_file_gets_one_line_that_names_it(linked_book, name, text, part):
    (linked_book / name).write_text(text)
    book = Book(linked_book)
    with refused(name, part):
        write_links(book)


def test_chapter_that_cannot_take_the_cells_is_reported(linked_book):
    write(linked_book, "first", prose("title", "# A"), code("make", "x = 1"))
    book = Book(linked_book)
    with refused("notebooks/first.ipynb: ", "no cell with the tag"):
        write_links(book)
