"""The site: how a page is made, how it is built, and what is on the pages as built."""

import base64
import functools
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from bs4 import BeautifulSoup, Tag
from docutils import nodes
from helpers import (
    CHAPTERS,
    H100,
    RECORDED,
    ROOT,
    assert_one_line,
    build_site,
    copy_kernel,
    display,
    draw_by,
    keep,
    outputs_path,
)
from markdown_it import MarkdownIt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image, PngImagePlugin
from sphinx.errors import ExtensionError

from tools.book.book import Book
from tools.book.figures import link_figures, svg_version
from tools.book.notebooks import write_notebook
from tools.errors import BookError
from tools.site import extension, status
from tools.site.formulas import draw
from tools.site.site import INPUTS, SITE, input_digests, is_current
from tools.site.timeline import MIME as TIMELINE
from tools.site.timeline import timeline_html

# A book of one chapter, to try faults on.


@pytest.fixture
def root(tmp_path):
    toc = {"format": "jb-book", "root": "book/preface", "chapters": [{"file": "notebooks/one"}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(toc))
    for folder in ("book", "img"):
        (tmp_path / folder).mkdir()
    (tmp_path / "book" / "preface.md").write_text("# Preface\n")
    (tmp_path / "img" / "chip.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    version = svg_version("chip.svg", tmp_path)
    chapter = new_notebook(metadata={"hardware": {"gpus": [0]}})
    chapter.cells = [
        new_markdown_cell(f"# One\n\n![A chip]({png('chip.svg', version)})", id="title"),
        new_code_cell("6 * 7", id="answer"),
        new_code_cell("import this", id="zen", metadata={"tags": ["nbval-ignore-output"]}),
    ]
    write_notebook(chapter, tmp_path / "notebooks" / "one.ipynb", tmp_path)
    for runner in ("cpu", "gpu"):
        copy_kernel(tmp_path, runner)
    keep(tmp_path, "one", "cpu", {"answer": [display(text_plain="42")]})
    (tmp_path / "tools" / "page").mkdir(parents=True)
    draw_by(tmp_path)
    return tmp_path


def png(source=None, version=None):
    """A PNG as a data URI that says which drawing it was made from, as far as is given."""
    info = PngImagePlugin.PngInfo()
    for key, value in {"Source": source, "Version": version}.items():
        if value is not None:
            info.add_text(key, value)
    buffer = io.BytesIO()
    Image.new("RGB", (2, 2)).save(buffer, "PNG", pnginfo=info)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def edit(root, old, new):
    path = root / "notebooks" / "one.ipynb"
    path.write_text(path.read_text().replace(old, new))


# What Sphinx is given of a page: how it is made is tested in test_merge.py.


def shown(root, folder, name, text):
    """What Sphinx reads of a page whose file holds `text`."""
    extension.read_pages.cache_clear()
    path = next((root / folder).glob(f"{name}.*"))
    app = SimpleNamespace(env=SimpleNamespace(doc2path=lambda docname: str(path)), srcdir=str(root))
    source = [text]
    extension.show_outputs(app, f"{folder}/{name}", source)
    return source[0]


def test_the_hook_replaces_the_text_of_a_chapter_and_reports_a_fault_as_sphinx_does(root):
    page = json.loads(shown(root, "notebooks", "one", ""))
    assert page["cells"][1]["outputs"][0]["data"]["text/plain"] == ["42"]
    assert shown(root, "book", "preface", "# Preface\n") == "# Preface\n"
    outputs_path("one", "cpu", root).unlink()
    with pytest.raises(ExtensionError, match=r"^outputs/cpu/one.ipynb: no such file"):
        shown(root, "notebooks", "one", "")


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        (png(), "the figure 'A chip' names no drawing"),
        (png("gone.svg"), "the figure 'A chip' names no drawing"),
        (png("chip.svg", "older"), "its copy of img/chip.svg is out of date"),
        ("data:image/png;base64,AAAA", "the figure 'A chip' names no drawing"),
    ],
    ids=["no name", "gone", "older", "no PNG"],
)
def test_a_figure_that_is_no_copy_of_a_drawing_is_an_error(root, address, fault):
    with pytest.raises(BookError, match=f"^here: {fault}"):
        link_figures(f"![A chip]({address})", "here", root)


# How the site is built: all or nothing.


@pytest.fixture
def built(root):
    """The root of a book with a site, whose page was changed since: to `old`."""
    build_site(root)
    (root / SITE / "index.html").write_text("old")
    return root


def leftovers(root):
    return sorted(path.name for path in (root / "_build").iterdir())


def page_of(root):
    return (root / SITE / "index.html").read_text()


@pytest.mark.parametrize("fault", ["sys.exit(1)", "1 / 0", "import os; os.kill(os.getpid(), 9)"])
def test_a_build_that_fails_leaves_the_last_good_site(built, fault):
    draw_by(built, fault)
    for _ in range(2):  # the second time, too: a failed build must not pass as a good one
        with pytest.raises(BookError, match="the site was not built; see what is said above"):
            build_site(built)
        assert page_of(built) == "old" and not is_current(built)
        assert leftovers(built) == ["html", "inputs.json"]


def test_a_build_that_is_stopped_leaves_the_last_good_site_and_no_process(built, monkeypatch):
    draw_by(built, "import time; time.sleep(60)")
    processes = []

    def stop(process, word):
        process.stdin.write(word)
        process.stdin.flush()
        processes.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", stop)
    with pytest.raises(KeyboardInterrupt):
        build_site(built)
    assert processes[0].returncode == -signal.SIGKILL
    assert page_of(built) == "old" and leftovers(built) == ["html", "inputs.json"]


def test_the_old_site_is_there_until_the_new_one_stands(built, monkeypatch):
    """And is put back if the new one cannot take its place."""
    rename, seen = Path.rename, []

    def fail_second(path, target):
        seen.append(path.name)
        if len(seen) == 2:
            assert (built / "_build" / "html.old" / "index.html").read_text() == "old"
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(BookError, match=rf"^{SITE}: cannot be written \(No space left .*make room"):
        build_site(built)
    assert seen == ["html", "html", "html.old"]
    assert page_of(built) == "old" and not is_current(built)
    assert leftovers(built) == ["html"]


def test_a_build_killed_between_its_renames_is_repaired_by_the_next(built):
    (built / SITE).rename(built / "_build" / "html.old")
    assert not is_current(built)
    draw_by(built, "sys.exit(1)")
    with pytest.raises(BookError):
        build_site(built)
    assert page_of(built) == "old"  # even if the next fails
    (built / SITE).rename(built / "_build" / "html.old")
    draw_by(built)
    build_site(built)
    assert page_of(built) == "new" and leftovers(built) == ["html", "inputs.json"]


def test_what_a_killed_build_left_and_what_no_page_asks_for_are_not_published(root):
    for leftover in ("work/_build/html", "html.old"):
        (root / "_build" / leftover).mkdir(parents=True)
        (root / "_build" / leftover / "half.html").write_text("half")
    site = build_site(root)
    assert [*site.iterdir()] == [*root.glob("_build/**/*.html")] == [site / "index.html"]


def test_a_site_is_current_until_an_input_changes(root):
    assert not is_current(root)
    build_site(root)
    assert is_current(root)
    (root / "img" / "chip.svg").touch()  # a date is no change
    assert is_current(root)
    (root / "img" / "other.svg").write_text("<svg/>")
    assert not is_current(root)
    (root / "img" / "other.svg").unlink()
    assert is_current(root)
    (root / SITE).rename(root / "away")
    assert not is_current(root)


def test_what_changes_while_the_site_is_drawn_makes_it_no_current_one(root):
    draw_by(root, 'Path("book", "preface.md").write_text("# Changed")')
    build_site(root)
    assert not is_current(root)


def test_the_inputs_hold_every_folder_and_file_that_a_site_or_a_recording_is_made_from():
    assert {"tools", "cudasim/src", "kernels", "notebooks", "outputs", "img", "book"} < {*INPUTS}
    assert {"_toc.yml", "_config.yml", "requirements.txt", "requirements-no-deps.txt"} < {*INPUTS}
    assert [name for name in INPUTS if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", INPUTS)
def test_every_kind_of_input_counts(name, tmp_path):
    path = tmp_path / name
    if (ROOT / name).is_dir():
        path = path / "below" / "file.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("before")
    before = input_digests(tmp_path)
    path.write_text("after")
    after = input_digests(tmp_path)
    assert before.keys() == after.keys() == {path.relative_to(tmp_path).as_posix()}
    assert after != before


@pytest.fixture
def whole(tmp_path):
    """A copy of all that this book's site is made from."""
    for name in INPUTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("fault", ["[gone](gone.md)", "{py:func}`gone`", r"$\gone$"])
def test_a_warning_fails_the_build(whole, capfd, fault):
    page = whole / f"{Book(ROOT).documents[0]}.md"
    page.write_text(page.read_text() + f"\n{fault}\n")
    with pytest.raises(BookError, match="the site was not built"):
        build_site(whole)
    assert "WARNING" in capfd.readouterr().err
    assert list((whole / "_build").iterdir()) == []


def test_a_book_that_names_no_repository_is_refused_in_one_line(whole, capfd):
    config = whole / "_config.yml"
    config.write_text(config.read_text().replace("repository:", "depository:"))
    with pytest.raises(BookError, match="the site was not built"):
        build_site(whole)
    assert_one_line(capfd.readouterr().err, "error: _config.yml: no 'repository:' entry")


def test_a_broken_file_of_facts_fails_the_build_without_a_traceback(whole, capfd):
    (whole / "book" / "bench.json").write_text("[]")
    with pytest.raises(BookError, match="the site was not built"):
        build_site(whole)
    said = capfd.readouterr().err
    assert "\nbook/bench.json: not what 'python -m tools bench' writes; remove it" in said
    assert "Traceback" not in said


# Formulas and tables.


@pytest.mark.parametrize("tex", ["n", r"\mathbf{Y} = \frac{1}{n}\mathbf{X}", r"\text{GB/s}"])
def test_a_formula_is_drawn_and_can_be_read_out(tex, caplog):
    svg = BeautifulSoup(draw(nodes.math(tex, tex), inline=True), "html.parser").svg
    assert svg.find_all("path") and svg["role"] == "img" and svg["aria-label"] == tex
    assert not caplog.records


@pytest.mark.parametrize("tex", [r"\gone", r"\frac{1"])
def test_a_formula_that_cannot_be_drawn_is_reported(tex, caplog):
    draw(nodes.math(tex, tex), inline=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_status_lists_what_was_executed_and_compared(root):
    *_, row, _, note = status.chapters_table(Book(root))
    assert row == (
        "| [](../notebooks/one.ipynb) | No GPU | 2026-01-31 | 1.2 | 1 | none | "
        "a processor | measured | 3.11.0 | PyTorch 2.0 |"
    )
    assert note == "No real GPU is recorded yet: `make record RUNNER=gpu` does it on one."
    keep(root, "one", "h100", {}, **H100)
    edit(root, "import this", "import that")  # a cell that now waits for the card
    keep(root, "one", "cpu", {})
    *_, cpu, card = status.chapters_table(Book(root))
    assert "| No GPU | 2026-01-31 | 1.2 | 1 | none |" in cpu
    assert "| NVIDIA H100 | 2026-01-31 | 1.2 | 1 | zen |" in card


def test_the_status_says_that_nothing_is_recorded(root):
    outputs_path("one", "cpu", root).unlink()
    assert status.chapters_table(Book(root)) == ["No outputs recorded yet: run `make book`."]


BENCH = {
    "date": "2026-01-31",
    "hardware": "a processor",
    "figures": [{"what": "Build", "value": 2, "unit": "s", "aim": "< 9 s", "command": "make book"}],
}


def test_the_status_lists_figures(root):
    assert status.figures_table(Book(root)) == [
        "No figures recorded yet: run `python -m tools bench`."
    ]
    path = root / "book" / "bench.json"
    path.write_text(json.dumps({"builds": BENCH}))
    listed = status.figures_table(Book(root))
    assert "| Build | 2 s | < 9 s | `make book` |" in listed
    assert listed[-1] == "Measured on 2026-01-31, on a processor."
    for broken in ("[]", "{", '{"builds": {}}'):
        path.write_text(broken)
        with pytest.raises(BookError, match=r"^book/bench.json: not what 'python -m tools bench'"):
            status.figures_table(Book(root))


# The site as built: every output is on its page.

SHOWN = (TIMELINE, "text/html", "image/svg+xml", "image/png")
SHOWN += ("text/markdown", "text/latex", "text/plain")
TERMINAL = re.compile(r"\x1b\[[0-9;]*m")  # colours in tracebacks


def squeezed(text):
    """The text without white space, which pages set as they like, and without colours."""
    return "".join(TERMINAL.sub("", text).split())


@functools.cache
def recorded(name, runner):
    """The cells that a page shows, and those that `runner` printed, by id."""
    recording = Book(ROOT).recording(runner, name)
    return recording.chapter.code_cells, recording.cells


def missing_outputs(page, name, runner):
    """What was recorded and is not in its place on the page: id of the cell, and what."""
    cells, printed = recorded(name, runner)
    shown = page.select("div.cell")
    if len(shown) != len(cells):
        return [("page", f"{len(shown)} code cells instead of {len(cells)}")]
    missing = []
    for cell, part in zip(cells, shown, strict=True):
        missing += [(cell.id, what) for what in missing_on(part, printed.get(cell.id), runner)]
    return missing


def missing_on(part, cell, runner):
    """What `runner` printed in `cell` and is not in its `part` of the page."""
    return missing_in_cell(cell, output_box(part, runner)) if cell else []  # not yet on a card


def output_box(part, runner):
    """The outputs of one cell on a page: those of `runner`, where each has its own."""
    if part.select_one("div.runner-output"):
        part = part.select_one(f"div.runner-output[data-runner='{runner}']")
    return (part and part.select_one("div.cell_output")) or Tag(name="div")


def missing_in_cell(cell, box):
    """The outputs of a recorded cell that its box on the page does not show."""
    missing, pictures = [], {Path(img["src"]).stem for img in box.find_all("img")}
    for output in cell.outputs:
        kind, content = shown_content(output)
        if kind in ("image/svg+xml", "image/png"):
            if file_stem(kind, content) not in pictures:
                missing.append(kind)
        elif kind == "text/latex":
            if not box.select("svg[role=img]"):
                missing.append(kind)
        elif squeezed(content) not in squeezed(box.get_text()):
            missing.append(content)
    return missing


def file_stem(kind, content):
    """What MyST-NB 1.4 calls the file of a picture: the hash of what is in it."""
    svg = kind == "image/svg+xml"
    data = os.linesep.join(content.splitlines()).encode() if svg else base64.b64decode(content)
    return hashlib.sha256(data).hexdigest()


def shown_content(output):
    """The form of an output that the page shows, and its text."""
    if output.output_type == "stream":
        return "stream", output.text
    if output.output_type == "error":
        return "error", f"{output.ename}: {output.evalue}"
    kind = next(kind for kind in SHOWN if kind in output.data)
    text = output.data[kind]
    if kind == TIMELINE:
        kind, text = "text/html", timeline_html(text)
    if kind == "text/markdown":
        kind, text = "text/html", MarkdownIt().enable("table").render(text)
    if kind == "text/html":
        text = parsed(text).get_text()
    return kind, text


def parsed(text):
    """HTML without what is not shown of it."""
    page = BeautifulSoup(text, "html.parser")
    for hidden in page.find_all(["style", "script"]):
        hidden.decompose()
    return page


def read_page(site, name):
    return parsed((site / "notebooks" / f"{name}.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("runner", "name"), RECORDED)
def test_every_output_is_on_the_page(site, runner, name):
    assert missing_outputs(read_page(site, name), name, runner) == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_an_output_that_is_taken_off_or_altered_is_noticed(site, name):
    cells = {runner: recorded(name, runner)[1] for runner, chapter in RECORDED if chapter == name}
    page, code = read_page(site, name), Book(ROOT).chapters[name].code_cells
    parts = page.select("div.cell")
    assert 0 < len(page.select("div.cell_output")) == len(page.select("div.cell div.cell_output"))

    def noticed(id, part):
        return any(missing_on(part, cells[runner].get(id), runner) for runner in cells)

    for cell, part in zip(code, parts, strict=True):
        for box in part.select("div.cell_output"):
            for stand_in in ("<p></p>", '<div class="cell_output">something else</div>'):
                other = BeautifulSoup(stand_in, "html.parser").contents[0]
                box.replace_with(other)
                assert noticed(cell.id, part), box
                other.replace_with(box)
        assert not noticed(cell.id, part)
    assert missing_outputs(BeautifulSoup("", "html.parser"), name, next(iter(cells)))


@pytest.mark.parametrize("name", CHAPTERS)
def test_outputs_under_the_name_of_another_runner_are_noticed(site, name):
    page = read_page(site, name)
    alone = len([runner for runner, recorded in RECORDED if recorded == name]) == 1
    for tabs in [] if alone else page.select("div.runner-outputs"):
        one, *others = tabs.select("div.runner-output")
        printed = str(one.select_one("div.cell_output"))
        other = next(o for o in others if str(o.select_one("div.cell_output")) != printed)
        pair = (one["data-runner"], other["data-runner"])
        other["data-runner"], one["data-runner"] = pair
        assert any(missing_outputs(page, name, runner) for runner in pair), tabs
        one["data-runner"], other["data-runner"] = pair


# The site as built: nothing on it asks another host.

OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*([^\"');]+)", re.IGNORECASE)
LOADING = ("src", "srcset", "href", "xlink:href", "poster", "data")  # but of <a>, a click's


def outside(text):
    """The addresses of other hosts that a page, or a drawing, would ask when it is shown."""
    found, asked = [], []
    for tag in BeautifulSoup(text, "html.parser").find_all(True):
        if tag.name != "a" and tag.get("rel") != ["canonical"]:
            asked += [tag.get(name, "") for name in LOADING]
        asked += STYLE.findall(tag.get("style", ""))
        if tag.name == "style":
            asked += STYLE.findall(tag.get_text())
        if tag.name == "script":
            found += ADDRESS.findall(tag.get_text())
    return found + [address for address in asked if OUTSIDE.match(address)]


@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
@pytest.mark.parametrize("kind", ["html", "svg", "css"])  # drawings can ask, too
def test_no_file_of_the_site_asks_another_host(site, kind):
    texts = {path.name: path.read_text(encoding="utf-8") for path in site.rglob(f"*.{kind}")}
    assert texts
    form = "<style>{}</style>" if kind == "css" else "{}"
    found = {name: outside(form.format(text)) for name, text in texts.items()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


@pytest.mark.parametrize(
    "doctored",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<script>const THEBE_JS_URL = "https://unpkg.example.org/thebe"</script>',
        '<link rel="stylesheet" href="//fonts.example.org/a.css">',
        '<img src="http://example.org/a.png">',
        '<iframe src="https://example.org"></iframe>',
        "<style>@import 'https://example.org/a.css';</style>",
        '<style>@import "//example.org/a.css";</style>',
        "<style>@font-face{src:url(https://example.org/a.woff2)}</style>",
        '<p style="background: url(https://example.org/a.png)">',
        '<svg><image xlink:href="https://example.org/a.png"/></svg>',
    ],
)
def test_an_outside_address_is_noticed(doctored):
    assert outside(f"<html><head></head><body>{doctored}</body></html>")


def test_a_link_to_follow_is_no_request():
    assert outside('<a href="https://pytorch.org">PyTorch</a>') == []
