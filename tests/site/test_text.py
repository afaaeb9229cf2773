"""Every page as text, without a browser: outputs, tabs, links, words for pictures, characters."""

import base64
import functools
import hashlib
import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import pytest
from bs4 import BeautifulSoup, Tag
from fontTools.ttLib import TTFont
from helpers import RECORDED, ROOT
from markdown_it import MarkdownIt

from tools.book.book import Book
from tools.book.links import launch_links
from tools.site.timeline import MIME as TIMELINE
from tools.site.timeline import timeline_html

BOOK = Book(ROOT)
PAGES = sorted(f"{name}.html" for name in (*BOOK.documents, "search"))
FRONT = f"{BOOK.documents[0]}.html"


def read_html(text):
    return BeautifulSoup(text, "html.parser")


# What a page says of itself, and of its pictures.


def head_faults(page):
    said = [tag.get("content", "").strip() for tag in page.select("meta[name=description]")]
    found = [] if page.title and page.title.get_text(strip=True) else ["no title"]
    if len(said) != 1 or not said[0]:
        found.append(f"descriptions: {said}")
    views = len(page.select("meta[name=viewport]"))
    return found + [f"viewports: {views}"] * (views != 1)


def image_faults(page):
    """Images without words for what they show, or without a size."""
    found = []
    for image in page("img"):
        words = image.get("alt", "").strip()
        if not words or re.search(r"\.(svg|png|jpe?g)$", words):
            found.append(f"alt: {words!r}: {image.get('src')}")
        if not (image.get("width") and image.get("height")):
            found.append(f"no size: {image.get('src')}")
    return found


# Nothing asks another host, and every link of the site leads somewhere.

OUTSIDE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*([^\"');]+)", re.IGNORECASE)
LOADING = ("src", "srcset", "href", "xlink:href", "poster", "data")  # but of <a>, a click's


def outside(page):
    """The addresses of other hosts that a page, or a drawing, would ask when it is shown."""
    found, asked = [], []
    for tag in page.find_all(True):
        if tag.name != "a" and tag.get("rel") != ["canonical"]:
            asked += [tag.get(name, "") for name in LOADING]
        asked += STYLE.findall(tag.get("style", ""))
        if tag.name == "style":
            asked += STYLE.findall(tag.get_text())
        if tag.name == "script":
            found += ADDRESS.findall(tag.get_text())
    return found + [address for address in asked if OUTSIDE.match(address)]


@functools.cache
def ids(path):
    return set(re.findall(r'\sid="([^"]*)"', path.read_text(encoding="utf-8")))


def dead_ends(page, path):
    """Links from a page, which lies in `path`, to files or places that are not there."""
    found = []
    for link in page.select("a[href]"):
        file, _, place = unquote(link["href"]).partition("#")
        if re.match(r"[a-z]+:", file) or (not file and "_" in place):
            continue  # another host's, or a case that the page's own script opens
        target = (path.parent / file.partition("?")[0]).resolve() if file else path
        in_page = place and target.suffix == ".html"
        if not target.is_file() or (in_page and place not in ids(target)):
            found.append(link["href"])
    return found


# Every character is in the site's own fonts.


@functools.cache
def drawn(kind):
    """The characters that all faces of a kind draw: "text" has two, upright and italic."""
    faces = {}
    for path in (ROOT / "book" / "static" / "fonts").glob(f"{kind}*.woff2"):
        face = re.sub("-(latin|latin-ext|symbols)$", "", path.stem)
        faces.setdefault(face, set()).update(map(chr, TTFont(path).getBestCmap()))
    return set.intersection(*faces.values())


def undrawn(page):
    """The characters in sight on a page that no font of the site draws."""
    code = {id(text) for tag in page(["pre", "code", "kbd", "samp"]) for text in tag.strings}
    fields = "".join(box.get("placeholder", "") for box in page("input"))
    shown = {"code": set(), "text": set(fields)}
    for text in page.find_all(string=True):
        if type(text).__name__ == "NavigableString" and text.parent.name not in ("title", "desc"):
            shown["code" if id(text) in code else "text"].update(text)
    return [
        f"{kind}: {sign} ({unicodedata.name(sign, hex(ord(sign)))})"
        for kind, signs in shown.items()
        for sign in sorted(signs - drawn(kind))
        if sign.isprintable()
    ]


# Choices open by keyboard and without a script, for they are the browser's own disclosures.


def choice_faults(page):
    return [
        f"choice: {str(choice)[:120]}"
        for choice in page.select("details.choice")
        if choice.get("open") is not None
        or not choice.select(":scope > summary:first-child:not([tabindex])")
        or not choice.select(":scope > p:not([hidden])")
    ]


# Outputs by runner.


def tab_faults(page, fewest=2):
    """What is wrong with the tabs of a page; [] if each has its label, its facts and its panel."""
    faults = []
    for tabs in page.select("div.runner-outputs"):
        panels = tabs.select("[role=tabpanel]")
        buttons = tabs.select("[role=tablist] > button[role=tab]")
        if len(buttons) < fewest:
            faults.append(f"fewer tabs than {fewest}")
        if [tab.get("aria-controls") for tab in buttons] != [panel.get("id") for panel in panels]:
            faults.append("tabs and panels are not the same")
            continue
        chosen = [(tab.get("aria-selected"), tab.get("tabindex")) for tab in buttons]
        if chosen != [("true", "0")] + [("false", "-1")] * (len(buttons) - 1):
            faults.append("not the first tab is chosen")
        for tab, panel in zip(buttons, panels, strict=True):
            name = panel.select_one(".runner-name")
            around = [name, *panel.select(".runner-times")]
            printed = [box for box in panel.find_all(recursive=False) if box not in around]
            printed = "".join(box.get_text(strip=True) for box in printed)
            wrong = {
                "no label": not tab.get_text(strip=True),
                "no facts": not tab.get("title"),
                "another name over the panel": name.get_text() != tab.get_text(),
                "not labelled by its tab": panel.get("aria-labelledby") != tab.get("id"),
                "another runner": panel.get("data-runner") != tab.get("data-runner"),
                "an empty panel": not (printed or panel.select("img, svg")),
            }
            faults += [f"{tab.get('id')}: {fault}" for fault, found in wrong.items() if found]
    named = [tag["id"] for tag in page.select(".runner-outputs [id]")]
    return faults + [f"{id}: twice" for id in sorted({*named}) if named.count(id) > 1]


def time_faults(page, name):
    """The tabs that do not say, under a cell that shows times, whose times they are."""
    faults, cells = [], BOOK.chapters[name].code_cells
    for cell, part in zip(cells, page.select("div.cell"), strict=True):
        for panel in part.select("[role=tabpanel]"):
            times = BOOK.recording(panel["data-runner"], name).times
            expected = [f"Times {times}."] * ("times" in cell.metadata.get("tags", []))
            last = panel.find_all(recursive=False)[-1:]
            if [box.get_text() for box in last if box.get("class") == ["runner-times"]] != expected:
                faults.append(f"{cell.id}: {panel['data-runner']}: not '{expected}'")
    return faults


SHOWN = (TIMELINE, "text/html", "image/svg+xml", "image/png")
SHOWN += ("text/markdown", "text/latex", "text/plain")
TERMINAL = re.compile(r"\x1b\[[0-9;]*m")  # colours in tracebacks


def squeezed(text):
    """The text without white space, which pages set as they like, and without colours."""
    return "".join(TERMINAL.sub("", text).split())


def missing_outputs(page, name, runner):
    """What was recorded and is not in its place on the page: id of the cell, and what."""
    cells = BOOK.chapters[name].code_cells
    printed = BOOK.recording(runner, name).cells
    shown = page.select("div.cell")
    if len(shown) != len(cells):
        return [("page", f"{len(shown)} code cells instead of {len(cells)}")]
    return [
        (cell.id, what)
        for cell, part in zip(cells, shown, strict=True)
        if cell.id in printed  # on a card it may not be, yet
        for what in missing_in_cell(printed[cell.id], output_box(part, runner))
    ]


def output_box(part, runner):
    """The outputs of one cell on a page: those of `runner`, where each has its own."""
    if part.select_one("div.runner-output"):
        part = part.select_one(f"div.runner-output[data-runner='{runner}']")
    return (part and part.select_one("div.cell_output")) or Tag(name="div")


def missing_in_cell(cell, box):
    """The outputs of a recorded cell that its box on the page does not show."""
    missing, pictures = [], {Path(img["src"]).stem for img in box.find_all("img")}
    shown = squeezed(box.get_text())
    for output in cell.outputs:
        kind, content = shown_content(output)
        if kind in ("image/svg+xml", "image/png"):
            if file_stem(kind, content) not in pictures:
                missing.append(kind)
        elif kind == "text/latex":
            if not box.select("svg[role=img]"):
                missing.append(kind)
        elif squeezed(content) not in shown:
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
    return kind, in_sight(read_html(text)).get_text() if kind == "text/html" else text


def in_sight(page):
    for hidden in page.find_all(["style", "script"]):
        hidden.decompose()
    return page


def runners_of(name):
    return [runner for runner, recorded in RECORDED if recorded == name]


# Each page once.


def test_these_are_all_pages(site):
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert built - {"index.html"} == set(PAGES)  # which only leads to another page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_as_text_has_no_fault(site, name):
    page = read_html((site / name).read_text(encoding="utf-8"))
    found = {
        "head": head_faults(page),
        "images": image_faults(page),
        "other hosts": outside(page),
        "links": dead_ends(page, site / name),
        "choices": choice_faults(page),
        "tabs": tab_faults(page, fewest=min(2, len(runners_of(Path(name).stem)))),
    }
    page, chapter = in_sight(page), Path(name).stem
    found["characters"] = undrawn(page)
    if chapter in BOOK.chapters:
        found["times"] = time_faults(page, chapter)
        for runner in runners_of(chapter):
            found[runner] = missing_outputs(page, chapter, runner)
    assert {check: faults for check, faults in found.items() if faults} == {}


def test_no_two_pages_say_the_same_of_themselves(site):
    for words in (r"<title>.*?</title>", r'<meta name="description".*?>'):
        said = [re.findall(words, (site / name).read_text("utf-8"), re.DOTALL) for name in PAGES]
        assert sorted(said) == sorted(map(list, {*map(tuple, said)}))


def test_the_front_page_leads_to_every_chapter_and_once_to_colab(site):
    page = read_html((site / FRONT).read_text(encoding="utf-8"))
    links = {link["href"].partition("#")[0] for link in page.select("article a[href]")}
    assert {f"../notebooks/{name}.html" for name in BOOK.chapters} - links == set()
    first = next(iter(BOOK.chapters))
    assert page.select_one(".front-go")["href"] == f"../notebooks/{first}.html"
    doors = [link["href"] for link in page.select(".doors a, .front-start a")]
    assert doors.count(launch_links(first, BOOK.repository)[0].url) == 1


@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
def test_no_drawing_or_style_sheet_asks_another_host(site):
    sheets = {path: f"<style>{path.read_text('utf-8')}</style>" for path in site.rglob("*.css")}
    drawings = {path: path.read_text("utf-8") for path in site.rglob("*.svg")}
    images = [path for path in drawings if path.parent.name in ("_images", "_static")]
    assert sheets and images
    found = {path.name: outside(read_html(text)) for path, text in (sheets | drawings).items()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}
    # The fonts of a page do not reach into an image.
    assert [path.name for path in images if "<text" in drawings[path]] == []


def test_style_sheets_write_only_what_is_drawn():
    sheets = (ROOT / "book" / "static").rglob("*.css")
    written = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    assert set("".join(re.findall(r"content:\s*\"([^\"]+)\"", written))) <= drawn("text")


# Each check notices its fault.

SOUND = """<title>A page</title><meta name="viewport" content="x">
<meta name="description" content="Sound."><img src="a.png" alt="A square" width="2" height="2">
<a href="https://pytorch.org">PyTorch</a><p>Tiếng Việt, x → y ≤ 2 µs, “±”</p><pre>├── █ ✓ Ω</pre>
<details class="choice"><summary>A</summary><p>No. This is why.</p></details>"""
CHANGES = [  # a check, what is changed, and to what
    (head_faults, "<title>A page</title>", ""),
    (head_faults, "Sound.", ""),
    (head_faults, "<a", '<meta name="viewport" content="x"><a'),
    (image_faults, "A square", ""),
    (image_faults, "A square", "_images/1a2b.svg"),
    (image_faults, 'height="2"', ""),
    (undrawn, "±", "\u2603"),
    (undrawn, "✓", "\u6f22"),
    (undrawn, "<a", '<input placeholder="\u6f22"><a'),
    (choice_faults, "<summary>", '<summary tabindex="-1">'),
    (choice_faults, "<details", "<details open"),
    (choice_faults, "<p>No", "<p hidden>No"),
    *[
        (outside, "<a", f"{tag}<a")
        for tag in (
            '<script src="https://cdn.example.org/a.js"></script>',
            '<script>const THEBE_JS_URL = "https://unpkg.example.org/thebe"</script>',
            '<link rel="stylesheet" href="//fonts.example.org/a.css">',
            "<style>@import 'https://example.org/a.css';</style>",
            "<style>@font-face{src:url(https://example.org/a.woff2)}</style>",
            '<p style="background: url(https://example.org/a.png)">',
            '<svg><image xlink:href="https://example.org/a.png"/></svg>',
        )
    ],
]


def test_a_fault_in_the_text_of_a_page_is_noticed():
    for check, part, instead in CHANGES:
        assert check(read_html(SOUND)) == [] and part in SOUND
        assert check(read_html(SOUND.replace(part, instead))) != [], instead


def test_links_that_lead_nowhere_are_noticed(tmp_path):
    (tmp_path / "page.html").write_text('<p id="place">')
    for link, fault in {"page.html#place": [], "gone.html": ["gone.html"], "#a": ["#a"]}.items():
        assert dead_ends(read_html(f'<a href="{link}">'), tmp_path / "page.html") == fault


def test_an_output_that_is_taken_off_altered_or_anothers_is_noticed(site):
    name = "tensors-on-gpus"
    page = in_sight(read_html((site / "notebooks" / f"{name}.html").read_text("utf-8")))
    cells = {runner: BOOK.recording(runner, name).cells for runner in runners_of(name)}

    def noticed(id, part):
        return any(
            missing_in_cell(printed[id], output_box(part, runner))
            for runner, printed in cells.items()
            if id in printed
        )

    for cell, part in zip(BOOK.chapters[name].code_cells, page.select("div.cell"), strict=True):
        for box in part.select("div.cell_output"):
            for stand_in in ("<p></p>", '<div class="cell_output">something else</div>'):
                other = read_html(stand_in).contents[0]
                box.replace_with(other)
                assert noticed(cell.id, part), box
                other.replace_with(box)
        for one, other in zip(*[iter(part.select("div.runner-output"))] * 2, strict=False):
            pair = one["data-runner"], other["data-runner"]
            if one.select_one(".cell_output") != other.select_one(".cell_output"):
                other["data-runner"], one["data-runner"] = pair
                assert noticed(cell.id, part) and tab_faults(page)
                one["data-runner"], other["data-runner"] = pair
        assert not noticed(cell.id, part)


BREAKS = {  # what is done to a set of tabs, and what is then wrong
    "[role=tab]": "not the same",
    "[role=tabpanel]": "not the same",
    "[role=tabpanel] > .cell_output": "an empty panel",
}


@pytest.mark.parametrize(("place", "fault"), BREAKS.items())
def test_tabs_that_are_not_whole_are_noticed(tiny_site, place, fault):
    page = read_html((tiny_site / "notebooks" / "second.html").read_text("utf-8"))
    assert tab_faults(page) == []
    page.select("div.runner-outputs")[-1].select(place)[-1].decompose()
    assert any(fault in found for found in tab_faults(page))


def test_a_card_has_its_tab_with_the_facts_on_hover(tiny_site):
    page = read_html((tiny_site / "notebooks" / "second.html").read_text("utf-8"))
    tabs = page.select("div.runner-outputs")[-1]
    *_, card = tabs.select("[role=tab]")
    assert (card.get_text(), card["data-runner"]) == ("NVIDIA H100", "h100")
    assert all(fact in card["title"] for fact in ("a processor", "2026-01-31", "driver 550.1"))
    assert tabs.select("[role=tabpanel]")[-1].get_text().strip().endswith("on a real card")
