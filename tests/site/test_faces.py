"""The site's own fonts: text is as wide as they say, is read before they come, and stays in place.

A browser finds only the fonts that a test gives it: none, or matplotlib's, which are DejaVu.
"""

import re
import time

import pytest
from browsing import NARROW, WIDE, finds_only, opened
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont
from helpers import ROOT

from tools import browsing
from tools.rules.rules import WIDTH

FONTS = ROOT / "book" / "static" / "fonts"
CHAPTER = "notebooks/computing-devices.html"
SAMPLE = "Every device: 0123 tensors"
STYLES = {  # a box's style, the file that draws it, at which weight and size
    "font: 400 100px var(--pst-font-family-base)": ("text-latin", 400, 112.5),
    "font: 600 100px var(--pst-font-family-heading)": ("text-latin", 600, 112.5),
    "font: 700 100px var(--pst-font-family-base)": ("text-latin", 600, 112.5),
    "font: italic 400 100px var(--pst-font-family-base)": ("text-italic-latin", 400, 112.5),
    "font: 400 100px var(--pst-font-family-monospace)": ("code-latin", 400, 100),
    "font: italic 700 100px var(--pst-font-family-monospace)": ("code-latin", 400, 100),
}
MEASURE = """([styles, text]) => styles.map(style => {
  const box = document.createElement("span");
  box.style = `${style}; position: absolute; white-space: pre; font-kerning: none`;
  box.textContent = text;
  document.body.append(box);
  const { width } = box.getBoundingClientRect();
  box.remove();
  return width;
})"""
LATE = 2  # seconds
# When the chapter's text was painted, when the first font came (ms), how far it moved.
SEEN_AND_MOVED = """async () => {
  const entries = type => new Promise(resolve => {
    new PerformanceObserver(list => resolve(list.getEntries())).observe({ type, buffered: true });
    setTimeout(() => resolve([]), 300);
  });
  const seen = (await entries("largest-contentful-paint"))
    .filter(entry => !entry.url && entry.element?.closest("article"))
    .map(entry => entry.startTime);
  const fonts = performance.getEntriesByType("resource")
    .filter(entry => /\\/fonts\\/.*woff2$/.test(entry.name)).map(entry => entry.responseEnd);
  const moves = (await entries("layout-shift")).map(entry => entry.value);
  return [Math.min(...seen), Math.min(...fonts), moves.reduce((sum, one) => sum + one, 0)];
}"""


def expected_width(file, weight, size):
    """The width of SAMPLE in pixels, by the font's own advance widths."""
    font = TTFont(FONTS / f"{file}.woff2")
    if "fvar" in font:
        font = instantiateVariableFont(font, {"wght": weight})
    glyphs, advances = font.getBestCmap(), font["hmtx"]
    total = sum(advances[glyphs[ord(character)]][0] for character in SAMPLE)
    return size * total / font["head"].unitsPerEm


def widths(page):
    return page.evaluate(MEASURE, [[*STYLES], SAMPLE])


EXPECTED = [pytest.approx(expected_width(*face), rel=0.002) for face in STYLES.values()]


class LateFonts(browsing.Handler):
    """Serves the fonts for text late, and the logo."""

    def do_GET(self):
        if re.search(r"/fonts/.*\.woff2$|/logo\.svg$", self.path):
            time.sleep(LATE)
        super().do_GET()


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.full)])
def test_text_is_readable_before_the_fonts_come_and_does_not_jump(
    browser, site, monkeypatch, width
):
    monkeypatch.setattr(browsing, "Handler", LateFonts)
    with opened(browser, site, CHAPTER, width=width) as (page, faults):
        seen, came, moved = page.evaluate(SEEN_AND_MOVED)
        assert seen < came and came > 1000 * LATE
        assert moved < 0.005  # a layout shift that nobody sees; 0.1 is held to be too much
        assert widths(page) == EXPECTED  # they did come
        assert faults == []


def test_text_is_as_wide_on_a_machine_without_fonts_and_the_widest_line_of_code_fits(
    browser, site, tmp_path
):
    program, environment = browsing.chromium_program(), finds_only(tmp_path, tmp_path)
    alone = browser.browser_type.launch(
        executable_path=program, args=browsing.QUIET, env=environment
    )
    with opened(alone, site, CHAPTER) as (page, faults):
        assert widths(page) == EXPECTED and faults == []
        fits = """n => {
          const line = document.querySelector('div.cell_input pre');
          line.textContent = 'x'.repeat(n);
          return line.scrollWidth <= line.clientWidth;
        }"""
        assert page.evaluate(fits, WIDTH) and not page.evaluate(fits, WIDTH + 4)
    alone.close()


def test_every_font_is_asked_for_by_the_name_under_which_it_is_served():
    sheet = (FONTS / "fonts.css").read_text(encoding="utf-8")
    assert {*re.findall(r"url\((.*?)\)", sheet)} == {path.name for path in FONTS.glob("*.woff2")}
    asked = (ROOT / "book" / "static" / "book.css").read_text(encoding="utf-8")
    assert {*re.findall(r'"(Book [^"]+)"', sheet)} == {*re.findall(r'"(Book [^"]+)"', asked)}
