"""The site's own fonts: text is read before they come, stays in place, and looks alike anywhere.

A browser finds only the fonts that a test gives it: Chinese alone, or matplotlib's, DejaVu.
"""

import re
import shutil
import time

import browsing
from browsing import finds_only, opened, script
from helpers import ROOT

from tools.rules.rules import WIDTH

CHAPTER = "notebooks/computing-devices.html"
STYLES = [
    f"{style} 100px var(--pst-font-family-{family})"
    for style in ("400", "600", "italic 400")
    for family in ("base", "heading", "monospace")
]
LATE = 2  # seconds


class LateFonts(browsing.Handler):
    def do_GET(self):
        if re.search(r"/fonts/.*\.woff2$|/logo\.svg$", self.path):
            time.sleep(LATE)
        super().do_GET()


def test_text_is_readable_before_the_fonts_come_and_does_not_jump(
    browser, site, monkeypatch
):
    monkeypatch.setattr(browsing, "Handler", LateFonts)
    with opened(browser, site, CHAPTER) as (page, faults):
        seen, came, moved = page.evaluate(script("painted"))  # the first two in ms
        assert seen < came and came > 1000 * LATE
        assert (
            moved < 0.005
        )  # a layout shift that nobody sees; 0.1 is held to be too much
        assert faults == []


def test_text_is_as_wide_on_a_machine_without_fonts_and_the_widest_line_of_code_fits(
    browser, site, tmp_path
):
    shutil.copy(
        ROOT / "languages" / "zh.otf", tmp_path
    )  # no Latin letters; without any it crashes
    with opened(browser, site, CHAPTER) as (page, _):
        widths = page.evaluate(script("widths"), STYLES)
    given = {"args": browsing.QUIET, "env": finds_only(tmp_path, tmp_path)}
    alone = browser.browser_type.launch(
        executable_path=browsing.chromium_program(), **given
    )
    with opened(alone, site, CHAPTER) as (page, faults):
        assert page.evaluate(script("widths"), STYLES) == widths and faults == []
        fits = script("fits")
        assert page.evaluate(fits, WIDTH) and not page.evaluate(fits, WIDTH + 4)
    alone.close()
