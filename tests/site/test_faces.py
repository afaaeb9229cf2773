"""The site's own fonts: they draw every character, alone on any system, and nothing jumps.

A browser finds only the fonts that a test gives it: none, or matplotlib's, which are DejaVu.
"""

import functools
import re
import time
import unicodedata
from pathlib import Path

import matplotlib
import pytest
from browsing import doctor, opened
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont
from helpers import ROOT

from tools import browsing
from tools.rules.rules import WIDTH

FONTS = ROOT / "book" / "static" / "fonts"
DEJAVU = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
CHAPTER = "notebooks/computing-devices.html"
CONTENT = re.compile(r"content:\s*\"([^\"]+)\"")
FAMILY = re.compile(r'"(Book [^"]+)"')


@pytest.fixture(scope="module", params=["DejaVu", "no font"])
def browser(request, tmp_path_factory):
    """A Chromium that finds these fonts alone, where it asks fontconfig (on Linux)."""
    folder = tmp_path_factory.mktemp("fontconfig")
    listed = DEJAVU if request.param == "DejaVu" else folder
    settings, cache = folder / "fonts.conf", f"<cachedir>{folder}/cache</cachedir>"
    settings.write_text(f"<fontconfig><dir>{listed}</dir>{cache}</fontconfig>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FONTCONFIG_FILE", str(settings))
        with browsing.chromium() as program:
            yield program


# Every character.


@functools.cache
def drawn(kind):
    """The characters that all faces of a kind draw: "text" has two, upright and italic."""
    faces = {"text": ("text", "text-italic"), "code": ("code",)}[kind]
    codes = [
        {code for part in FONTS.glob(f"{face}-[ls]*.woff2") for code in TTFont(part).getBestCmap()}
        for face in faces
    ]
    return {chr(code) for code in set.intersection(*codes)}


def shown(page):
    """The characters in sight on a page: of code, and of the rest."""
    page = BeautifulSoup(page, "html.parser")
    for hidden in page(["style", "script", "title", "desc"]):
        hidden.decompose()
    code = "".join(tag.extract().get_text() for tag in page(["pre", "code", "kbd", "samp"]))
    fields = "".join(tag["placeholder"] for tag in page("input", placeholder=True))
    return {"code": set(code), "text": set(page.get_text() + fields)}


def undrawn(page):
    """The characters on a page that no font of the site draws."""
    return [
        f"{kind}: {character} ({unicodedata.name(character, hex(ord(character)))})"
        for kind, characters in shown(page).items()
        for character in sorted(characters - drawn(kind))
        if character.isprintable()
    ]


def test_every_character_is_drawn_by_the_fonts_of_the_site(site):
    pages = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    found = {path.name: undrawn(path.read_text(encoding="utf-8")) for path in pages}
    assert pages and {name: faults for name, faults in found.items() if faults} == {}


def test_style_sheets_write_only_what_is_drawn():
    sheets = (ROOT / "book" / "static").rglob("*.css")
    written = CONTENT.findall("".join(sheet.read_text(encoding="utf-8") for sheet in sheets))
    assert set("".join(written)) <= drawn("text")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<p>A snowman \u2603</p>", ["text: \u2603 (SNOWMAN)"]),
        ("<pre>\u6f22</pre>", ["code: \u6f22 (CJK UNIFIED IDEOGRAPH-6F22)"]),
        ('<input placeholder="\u6f22">', ["text: \u6f22 (CJK UNIFIED IDEOGRAPH-6F22)"]),
        ("<p>Tiếng Việt, x → y ≤ 2 µs, “±”</p><pre>│ ├── █ ✓ Ω</pre>", []),
    ],
)
def test_a_character_that_no_font_draws_is_noticed(page, fault):
    assert undrawn(page) == fault


def test_the_fonts_are_asked_for():
    sheet = (FONTS / "fonts.css").read_text(encoding="utf-8")
    files = {path.name for path in FONTS.glob("*.woff2")}
    assert set(re.findall(r"url\((.*?)\)", sheet)) == files
    asked = (ROOT / "book" / "static" / "book.css").read_text(encoding="utf-8")
    assert {*FAMILY.findall(sheet)} == {*FAMILY.findall(asked)}


def test_no_drawing_that_is_an_image_has_text(site):
    images = [*site.glob("_images/*.svg"), *site.glob("_static/*.svg")]
    assert images and [path.name for path in images if "<text" in path.read_text()] == []


# Widths.

SAMPLE = "Every device: 0123 tensors"
STYLES = {  # a box's style, the file that draws it, at which weight and size
    "font: 400 100px var(--pst-font-family-base)": ("text-latin", 400, 112.5),
    "font: 600 100px var(--pst-font-family-heading)": ("text-latin", 600, 112.5),
    "font: 700 100px var(--pst-font-family-base)": ("text-latin", 600, 112.5),
    "font: italic 400 100px var(--pst-font-family-base)": ("text-italic-latin", 400, 112.5),
    "font: 400 100px var(--pst-font-family-monospace)": ("code-latin", 400, 100),
    "font: italic 700 100px var(--pst-font-family-monospace)": ("code-latin", 400, 100),
}


def expected_width(file, weight, size):
    """The width of SAMPLE in pixels, by the font's own advance widths."""
    font = TTFont(FONTS / f"{file}.woff2")
    if "fvar" in font:
        font = instantiateVariableFont(font, {"wght": weight})
    glyphs, advances = font.getBestCmap(), font["hmtx"]
    total = sum(advances[glyphs[ord(character)]][0] for character in SAMPLE)
    return size * total / font["head"].unitsPerEm


def width_faults(page):
    """The styles in which SAMPLE is not as wide on the page as the site's font says."""
    found = []
    for style, face in STYLES.items():
        width = page.evaluate(
            """([style, text]) => {
              const box = document.createElement("span");
              box.style = `${style}; position: absolute; white-space: pre; font-kerning: none`;
              box.textContent = text;
              document.body.append(box);
              const { width } = box.getBoundingClientRect();
              box.remove();
              return width;
            }""",
            [style, SAMPLE],
        )
        if abs(width / expected_width(*face) - 1) > 0.002:
            found.append(f"{style}: {width:.1f} px, not {expected_width(*face):.1f}")
    return found


def test_text_is_as_wide_as_the_fonts_of_the_site_say(browser, site):
    with opened(browser, site, CHAPTER) as (page, faults):
        assert faults + width_faults(page) == []


def test_a_font_that_is_not_there_is_noticed(browser, doctored):
    (doctored / "_static" / "fonts" / "text-latin.woff2").unlink()
    with opened(browser, doctored, CHAPTER) as (page, faults):
        assert len(width_faults(page)) == 3
        assert any(fault.startswith("answers 404") for fault in faults)


# The time before the fonts arrive.

LATE = 2  # seconds
STILL = 0.005  # a layout shift that nobody sees; 0.1 is held to be too much
STAND_IN = re.compile(r"@font-face {[^}]*local[^}]*}")
OVERRIDE = re.compile(r"(size-adjust|[a-z]+(-[a-z]+)?-override):[^;]*;")
only_dejavu = pytest.mark.parametrize("browser", ["DejaVu"], indirect=True)


class LateFonts(browsing.Handler):
    """Serves the fonts for text late, and the logo."""

    def do_GET(self):
        if re.search(r"/fonts/.*\.woff2$|/logo\.svg$", self.path):
            time.sleep(LATE)
        super().do_GET()


def seen_and_moved(page):
    """When the chapter's text was painted, when the first font came (ms), how far it moved."""
    return page.evaluate(
        """async () => {
          const entries = type => new Promise(resolve => {
            new PerformanceObserver(list => resolve(list.getEntries()))
              .observe({ type, buffered: true });
            setTimeout(() => resolve([]), 300);
          });
          const seen = (await entries("largest-contentful-paint"))
            .filter(entry => !entry.url && entry.element?.closest("article"))
            .map(entry => entry.startTime);
          const fonts = performance.getEntriesByType("resource")
            .filter(entry => /\\/fonts\\/.*woff2$/.test(entry.name))
            .map(entry => entry.responseEnd);
          const moves = (await entries("layout-shift")).map(entry => entry.value);
          return [Math.min(...seen), Math.min(...fonts), moves.reduce((sum, one) => sum + one, 0)];
        }"""
    )


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(browsing, "Handler", LateFonts)


@only_dejavu
@pytest.mark.parametrize("width", [1280, 360])
def test_text_is_readable_before_the_fonts_come_and_does_not_jump(browser, site, late, width):
    with opened(browser, site, CHAPTER, width=width, until="networkidle") as (page, _):
        seen, came, moved = seen_and_moved(page)
        assert seen < came and moved < STILL
        assert width_faults(page) == []  # they did come


@only_dejavu
def test_a_stand_in_of_another_size_is_noticed(browser, doctored, late):
    sheet = doctored / "_static" / "fonts" / "fonts.css"
    text = sheet.read_text(encoding="utf-8")
    sheet.write_text(STAND_IN.sub(lambda rule: OVERRIDE.sub("", rule[0]), text), encoding="utf-8")
    with opened(browser, doctored, CHAPTER, until="networkidle") as (page, _):
        assert seen_and_moved(page)[2] > 2 * STILL


@only_dejavu
def test_a_logo_without_its_place_is_noticed(browser, doctored, late):
    doctor(doctored, "_static/book.css", "height: 100px", "height: unset")
    with opened(browser, doctored, CHAPTER, until="networkidle") as (page, _):
        assert seen_and_moved(page)[2] > 2 * STILL


@only_dejavu
def test_text_that_waits_for_its_fonts_is_noticed(browser, doctored, late):
    doctor(doctored, "_static/fonts/fonts.css", "swap", "block")
    with opened(browser, doctored, CHAPTER, until="networkidle") as (page, _):
        seen, came, _ = seen_and_moved(page)
        assert seen >= came


def test_the_widest_line_that_the_rules_allow_fits_the_page(browser, site):
    """Without scrolling, on a screen of 1280 pixels."""
    with opened(browser, site, CHAPTER, width=1280) as (page, _):
        fits = """n => {
          const line = document.querySelector('div.cell_input pre');
          line.textContent = 'x'.repeat(n);
          return line.scrollWidth <= line.clientWidth;
        }"""
        assert page.evaluate(fits, WIDTH) and not page.evaluate(fits, WIDTH + 4)
