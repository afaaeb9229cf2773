"""Links to services: one place names the repository, and everything agrees with it."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers import ROOT, cell, code, prose, refused, run_tool, write

from tools.book.addresses import relative_links
from tools.book.book import Book
from tools.book.links import (
    INSTALLS,
    linked_chapter,
    readme_text,
    write_links,
)
from tools.book.repository import Repository, make_repository, notebook_links
from tools.book.setup_cells import release_page, simulator_version

# An address of a service, up to what ends it in Markdown, HTML or code.
ADDRESS = re.compile(
    r"https://(?:colab\.research\.google\.com/github/|studiolab\.sagemaker\.aws/import/"
    r"|(?:www\.)?kaggle\.com/kernels/|mybinder\.org/v2/|raw\.githubusercontent\.com/"
    r"|nbgitpuller\.readthedocs\.io/en/latest/link|[^\s)\"'`]*/git-pull\?)[^\s)\"'`]*"
)
# What installs the simulator: pip's words, the page of a release, a wheel, a clone.
INSTALLED = re.compile(
    r"\bcudasim(?:\[\w+\])?==\d[\w.]*\d|https://[^\s'\"]+(?:\.whl|/expanded_assets/[\w.-]+)"
    r"|git\+https:[^\s'\"]+"
)
TEXTS = [*ROOT.glob("*.md"), *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.ipynb")]


def addresses(text):
    return [unquote(address.replace("&amp;", "&")) for address in ADDRESS.findall(text)]


def strangers(text, repository):
    """Return the addresses in a text that lead to another repository, branch or version."""
    slug = f"{repository.owner}/{repository.name}"
    outside = []
    for address in addresses(text):
        is_ours = re.search(rf"[/=]{slug}[/?&]", address)
        is_current = re.search(rf"[/=]{repository.branch}\b", address)
        if not is_ours or not is_current:
            outside.append(address)
    version = simulator_version(ROOT)
    for installed in INSTALLED.findall(text):
        is_release = installed.endswith(f"=={version}")
        if not is_release and installed != release_page(repository, version):
            outside.append(installed)
    return outside


def test_this_book_agrees_with_the_one_place():
    """Every chapter and `README.md` are as the command writes them, and no text strays."""
    book = Book(ROOT)
    for chapter in book.chapters.values():
        assert linked_chapter(chapter, book) == chapter
        metadata = chapter.notebook.metadata
        # Colab gives such a notebook a GPU.
        assert metadata.accelerator == "GPU"
        assert metadata.colab.gpuType == "T4"
        # The one kernel that every service has.
        assert metadata.kernelspec.name == "python3"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_text(list(book.chapters.values()), book) == readme
    for path in [*TEXTS, *(ROOT / name for name in INSTALLS)]:
        assert strangers(path.read_text(encoding="utf-8"), book.repository) == [], path


WITHOUT_HUB = Path(__file__).with_name("addresses.txt").read_text(encoding="utf-8")
GENERATOR = "https://nbgitpuller.readthedocs.io/en/latest/link.html"


def urls_of(repository):
    return [link.url for link in notebook_links("notebooks/first.ipynb", repository)]


def test_addresses_have_the_form_that_services_document():
    urls = urls_of(make_repository("a/b", "next/one"))
    assert urls == WITHOUT_HUB.splitlines()
    assert len(strangers(WITHOUT_HUB, make_repository("a/b", "main"))) == len(urls)


def test_a_hub_of_a_class_takes_the_place_of_the_generator():
    hub = make_repository("a/b", "next/one", "https://hub.example.org/class/")
    address = "https://hub.example.org/class/hub/user-redirect/git-pull"
    with_hub = WITHOUT_HUB.replace(GENERATOR, address)
    assert with_hub.splitlines()[4] in urls_of(hub)


def config(name="b", branch="main", hub="none"):
    url = f"https://github.com/a/{name}"
    return f"repository: {{url: {url}, branch: {branch}, hub: {hub}}}"


def test_command_names_the_repository_everywhere(linked_book):
    config = linked_book / "_config.yml"
    settings = config.read_text().replace("someone/tiny", "other/book")
    config.write_text(settings.replace("main", "trunk"))
    run = run_tool(linked_book, "links")
    assert sorted(run.stdout.splitlines()) == [
        "README.md: written",
        "notebooks/first.ipynb: written",
        "notebooks/second.ipynb: written",
        "outputs/cpu/first.ipynb: written",
        "outputs/cpu/second.ipynb: written",
    ]

    repository = Repository("other", "book", "trunk")
    readme = (linked_book / "README.md").read_text()
    assert readme.endswith("<!-- end -->\n\nThe end.\n")
    assert len(addresses(readme)) == 2
    assert strangers(readme, repository) == []
    for path in linked_book.glob("notebooks/*"):
        text = path.read_text()
        assert len(addresses(text)) >= 6
        assert strangers(text, repository) == []

    book = Book(linked_book)
    for recording in book.recordings:
        setup = cell(recording.chapter.notebook, "setup").source
        assert recording.current_cells["setup"].source == setup
        assert recording.stale_because(book.pins) is None
    assert write_links(book) == []


def test_a_new_version_of_the_simulator_is_named_everywhere(linked_book):
    package = linked_book / "cudasim" / "src" / "cudasim" / "__init__.py"
    package.write_text('__version__ = "9.8.7"\n')
    readme = linked_book / "README.md"
    with readme.open("a") as file:
        file.write("pip install cudasim==1.0.0 'cudasim[test]==1.0.0'\n")
    setup = code("setup", "", tags=["setup"])
    write(linked_book, "second-jax", prose("title", "# Second"), setup)

    write_links(Book(linked_book))

    page = release_page(Book(linked_book).repository, "9.8.7")
    chapters = Book(linked_book).chapters
    for name in ("first", "second-jax"):
        setup = cell(chapters[name].notebook, "setup").source
        assert "==9.8.7" in setup
        assert page in setup
    last_line = "pip install cudasim==9.8.7 'cudasim[test]==9.8.7'\n"
    assert readme.read_text().endswith(last_line)


ALL_KINDS = """\
[A](second.ipynb), [B](../book/preface.md#b), [C](#c), [D](../course/d.py),
[E](https://a.b/e.md), `[F](f.md)`, ![G](data:image/png;base64,AA)"""


def test_links_to_pages_are_addresses_and_pages_have_links_to_files(linked_book):
    write(
        linked_book,
        "first",
        prose("title", "# First"),
        code("setup", "", tags=["setup"]),
        prose("text", ALL_KINDS),
    )
    write_links(Book(linked_book))
    book = Book(linked_book)
    text = cell(book.chapters["first"].notebook, "text").source
    site = book.repository.site
    assert text == (
        f"[A]({site}notebooks/second.html), [B]({site}book/preface.html#b), "
        f"[C]({site}notebooks/first.html#c), [D]({book.repository.url}/blob/main/course/d.py),\n"
        "[E](https://a.b/e.md), `[F](f.md)`, ![G](data:image/png;base64,AA)"
    )
    on_page = relative_links(text, "first", book).splitlines()
    assert on_page[0].startswith(
        "[A](second.ipynb), [B](../book/preface.md#b), [C](#c),"
    )
    # Of a page that the book does not have, the address stays.
    missing = f"[X]({site}notebooks/other.html)"
    assert relative_links(missing, "first", book) == missing


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("_config.yml", "a: [", "not valid YAML; correct it there"),
        ("_config.yml", config(name="b/c"), "repository 'a/b/c': not"),
        ("_config.yml", config(branch="my branch"), "branch 'my branch'"),
        ("_config.yml", config(hub="h.org"), "hub 'h.org': write"),
        ("README.md", "# Tiny\n", "<!-- links -->"),
        ("cudasim/src/cudasim/__init__.py", "", "lacks"),
    ],
)
def test_broken_file_gets_one_line_that_names_it(linked_book, name, text, part):
    (linked_book / name).write_text(text)
    book = Book(linked_book)
    with refused(name, part):
        write_links(book)


def test_a_chapter_without_a_set_up_cell_is_reported(linked_book):
    write(linked_book, "first", prose("title", "# A"), code("make", "x = 1"))
    book = Book(linked_book)
    with refused("notebooks/first.ipynb: ", "no cell with the tag"):
        write_links(book)
