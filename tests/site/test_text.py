"""Every page as text, without a browser: outputs, tabs, links, words for pictures, characters."""

import base64
import hashlib
import os
import re
from pathlib import Path

import pytest
from bs4 import Tag
from helpers import ROOT
from markdown_it import MarkdownIt
from markup import (
    dead_links,
    drawn_characters,
    head_faults,
    image_faults,
    in_sight,
    other_hosts,
    page_of,
    read_html,
    undrawn_characters,
)

from tools.book.book import Book
from tools.book.grammar import SETUP, TIMELINE
from tools.book.notebooks import tags
from tools.book.repository import notebook_links
from tools.languages.language import read_languages
from tools.site.folds_and_covers import COVERED
from tools.site.timeline import timeline_html

BOOK = Book(ROOT)
PAGES = sorted(f"{name}.html" for name in (*BOOK.documents, "search"))


# Outputs by runner.


def own_parts(cell_box, selector):
    """Return the parts of a cell itself, without those of another in the same cover."""
    parts = cell_box.select(selector)
    return [part for part in parts if part.find_parent(class_="cell") is cell_box]


def cells_on(page, chapter):
    """Return pairs of a code cell of a chapter and the box on the page with its outputs."""
    selector = "div.cell"
    if len(BOOK.chapters_on(chapter.page_name)) > 1:
        selector = f".framework.{chapter.framework} div.cell"
    boxes = []
    for box in page.select(selector):
        # What answers a prediction is in a box of its own, under the cover.
        if COVERED in box["class"]:
            boxes[-1] = box
        else:
            boxes.append(box)
    return zip(chapter.code_cells, boxes, strict=True)


def tab_faults(page, chapter):
    """Return the tabs and panels of a chapter that are not whole."""
    recordings = {}
    for recording in BOOK.recordings_of(chapter.name):
        recordings[recording.machine] = recording
    fewest = min(2, len(recordings))
    faults = []
    for cell, box in cells_on(page, chapter):
        for outputs in own_parts(box, "div.runner-outputs"):
            buttons = outputs.select("[role=tab]")
            panels = outputs.select("[role=tabpanel]")
            if len(buttons) < fewest or len(buttons) != len(panels):
                faults.append(f"{cell.id}: {len(buttons)} tabs, {len(panels)} panels")
            for button, panel in zip(buttons, panels, strict=False):
                recording = recordings[panel["data-runner"]]
                for fault in panel_faults(cell, button, panel, recording):
                    faults.append(f"{cell.id}: {button}: {fault}")
    return faults


def panel_faults(cell, button, panel, recording):
    """Yield what a panel lacks: its name, outputs, or words on whose times it shows."""
    label, *shown = panel.find_all(recursive=False)
    if label.get_text() != button.get_text():
        yield "its panel has another name"
    if not button.get("title"):
        yield "no facts"

    notes = [box for box in shown if box.get("class") == ["runner-times"]]
    outputs = "".join(str(box) for box in shown if box not in notes)
    expected = []
    # It is said once: by the outputs, or by a note below them.
    if "times" in tags(cell) and recording.times_source not in outputs:
        expected = [f"Times {recording.times_source}."]
    if [note.get_text() for note in notes] != expected:
        yield f"its times are not {expected}"
    if len(shown) == len(notes):
        yield "nothing shown"


TEXT_KINDS = ("text/markdown", "text/latex", "text/plain")
# In the order in which a page prefers them.
SHOWN_KINDS = (TIMELINE, "text/html", "image/svg+xml", "image/png", *TEXT_KINDS)


def squeezed(text):
    """Return a text without colours and white space, which pages set as they like."""
    uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "".join(uncoloured.split())


def missing_outputs(page, recording):
    """Return (cell, content) for each recorded output that the page does not show."""
    missing = []
    for cell, box in cells_on(page, recording.chapter):
        recorded = recording.current_cells.get(cell.id)
        # On a card, a cell may wait to be recorded. The legend says what a setup prints.
        if recorded is None or SETUP in tags(cell):
            continue
        output_box = output_box_of(box, recording.machine)
        for output in recorded.outputs:
            kind, content = shown_content(output)
            if not is_shown(kind, content, output_box):
                missing.append((cell.id, content))
    return missing


def output_box_of(cell_box, machine):
    """Return the box with a cell's outputs on a machine, an empty one if it has none."""
    empty = Tag(name="div")
    if own_parts(cell_box, "div.runner-output"):
        panels = own_parts(cell_box, f"div.runner-output[data-runner='{machine}']")
        if not panels:
            return empty
        [cell_box] = panels
    return cell_box.select_one("div.cell_output") or empty


def is_shown(kind, content, box):
    if kind.startswith("image/"):
        pictures = [Path(image["src"]).stem for image in box("img")]
        return file_stem(kind, content) in pictures
    if kind == "text/latex":
        return bool(box.select("svg[role=img]"))
    return squeezed(content) in squeezed(box.get_text())


def file_stem(kind, content):
    """Return the name that MyST-NB gives the file of a picture."""
    if kind == "image/svg+xml":
        data = os.linesep.join(content.splitlines()).encode()
    else:
        data = base64.b64decode(content)
    return hashlib.sha256(data).hexdigest()


def shown_content(output):
    """Return the kind that a page shows of an output, and its content."""
    if output.output_type == "stream":
        return "stream", output.text
    if output.output_type == "error":
        return "error", f"{output.ename}: {output.evalue}"
    kind = next(kind for kind in SHOWN_KINDS if kind in output.data)
    content = output.data[kind]
    if kind == TIMELINE:
        return "text/html", text_of_html(timeline_html(content))
    if kind == "text/markdown":
        html = MarkdownIt().enable("table").render(content)
        return "text/html", text_of_html(html)
    if kind == "text/html":
        return kind, text_of_html(content)
    return kind, content


def text_of_html(html):
    return in_sight(read_html(html)).get_text()


# Each page once.


def test_these_are_all_pages(site):
    expected = set()
    for folder in ("", *(f"{language}/" for language in read_languages(ROOT))):
        # The index only leads to another page.
        for name in (*PAGES, "index.html"):
            expected.add(f"{folder}{name}")
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert built == expected


@pytest.mark.parametrize("name", PAGES)
def test_a_page_as_text_has_no_fault(site, name):
    page = page_of(site, name)
    faults = {
        "head": head_faults(page),
        "images": image_faults(page),
        "other hosts": other_hosts(page),
        "links": dead_links(page, site / name),
        "characters": undrawn_characters(in_sight(page)),
    }
    for chapter in BOOK.chapters_on(Path(name).stem):
        faults[chapter.name] = tab_faults(page, chapter)
        for recording in BOOK.recordings_of(chapter.name):
            faults[recording.where] = missing_outputs(page, recording)
    assert {check: found for check, found in faults.items() if found} == {}


def test_no_two_pages_have_the_same_title_or_description(site):
    titles = set()
    descriptions = set()
    for name in PAGES:
        head, _, _ = (site / name).read_text(encoding="utf-8").partition("</head>")
        page = read_html(head)
        titles.add(page.title.get_text())
        descriptions.add(page.select_one("meta[name=description]")["content"])
    assert len(titles) == len(PAGES)
    assert len(descriptions) == len(PAGES)


def test_the_front_page_leads_to_every_chapter(site):
    page = page_of(site, f"{BOOK.documents[0]}.html")
    first = next(iter(BOOK.chapters))
    links = {link["href"].partition("#")[0] for link in page.select("article a[href]")}
    assert {f"../notebooks/{name}.html" for name in BOOK.pages} <= links
    assert page.select_one(".front-go")["href"] == f"../notebooks/{first}.html"

    # It leads to Colab once.
    colab = notebook_links(f"notebooks/{first}.ipynb", BOOK.repository)[0].url
    doors = [link["href"] for link in page.select(".doors a, .front-start a")]
    assert doors.count(colab) == 1


@pytest.fixture(scope="module")
def style_sheets(site):
    """The text of every style sheet of the site, by its path."""
    return {path: path.read_text("utf-8") for path in site.rglob("*.css")}


@pytest.fixture(scope="module")
def drawings(site):
    """The text of every drawing of the site, by its path."""
    return {path: path.read_text("utf-8") for path in site.rglob("*.svg")}


@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
def test_no_drawing_or_style_sheet_asks_another_host(style_sheets, drawings):
    assert style_sheets and drawings
    for path, text in style_sheets.items():
        assert other_hosts(read_html(f"<style>{text}</style>")) == [], path
    for path, text in drawings.items():
        assert other_hosts(read_html(text)) == [], path


def test_the_files_that_style_sheets_load_are_there(style_sheets):
    files = []
    for path, text in style_sheets.items():
        for url in re.findall(r"url\(([\w./-]+\.(?:png|svg|woff2))\)", text):
            files.append(path.parent / url)
    assert files
    assert [file for file in files if not file.is_file()] == []


def test_images_and_style_sheets_write_only_what_is_drawn(drawings):
    # The fonts of a page do not reach into an image.
    for path, text in drawings.items():
        assert path.parent.name != "_images" or "<text" not in text, path
    written = set()
    for sheet in (ROOT / "book" / "static").rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        for content in re.findall(r"content:\s*\"([^\"]+)\"", text):
            written.update(content)
    assert written
    assert written <= drawn_characters("text")


def test_a_card_has_its_tab_with_the_facts_on_hover(tiny_site):
    page = page_of(tiny_site, "notebooks/second.html")
    outputs = page.select("div.runner-outputs")[-1]
    card = outputs.select("[role=tab]")[-1]
    assert card.get_text() == "NVIDIA H100"
    assert card["data-runner"] == "h100"
    for fact in ("a processor", "2026-01-31", "driver 550.1"):
        assert fact in card["title"]
    panel = outputs.select("[role=tabpanel]")[-1]
    assert panel.get_text().strip().endswith("on a real card")
