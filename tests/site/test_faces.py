"""The site's own fonts: text is read before they come, and looks alike on any machine.

A browser finds only the fonts that a test gives it: Chinese alone, or matplotlib's, DejaVu.
"""

import re
import shutil
import time

import browsing
import pytest
from browsing import finds_only, opened, script
from helpers import ROOT

from tools.rules.rules import WIDTH

CHAPTER = "notebooks/computing-devices.html"
STYLES = []
for family in ("base", "heading", "monospace"):
    for style in ("400", "600", "italic 400"):
        STYLES.append(f"{style} 100px var(--pst-font-family-{family})")
LATE = 2  # seconds


class LateFonts(browsing.Handler):
    def do_GET(self):
        if re.search(r"/fonts/.*\.woff2$|/logo\.svg$", self.path):
            time.sleep(LATE)
        super().do_GET()


def test_text_is_readable_before_the_fonts_come(browser, site, monkeypatch):
    monkeypatch.setattr(browsing, "Handler", LateFonts)
    with opened(browser, site, CHAPTER) as (page, faults):
        # Times are in milliseconds.
        painted = page.evaluate(script("painted"))
        assert painted["textSeen"] < painted["fontsCame"]
        assert painted["fontsCame"] > 1000 * LATE
        # Nobody sees a layout shift so small; 0.1 is held to be too much.
        assert painted["shift"] < 0.005
        assert faults == []


@pytest.fixture
def browser_without_fonts(browser, tmp_path):
    # This font has no Latin letters; without any, Chromium crashes.
    shutil.copy(ROOT / "languages" / "zh.otf", tmp_path)
    alone = browser.browser_type.launch(
        executable_path=browsing.chromium_program(),
        args=browsing.QUIET,
        env=finds_only(tmp_path, tmp_path),
    )
    yield alone
    alone.close()


def test_text_is_as_wide_on_a_machine_without_fonts(
    browser, browser_without_fonts, site
):
    with opened(browser, site, CHAPTER) as (page, _):
        widths = page.evaluate(script("widths"), STYLES)
    with opened(browser_without_fonts, site, CHAPTER) as (page, faults):
        assert page.evaluate(script("widths"), STYLES) == widths
        assert faults == []


def test_the_widest_line_of_code_fits(browser, site):
    with opened(browser, site, CHAPTER) as (page, _):
        assert page.evaluate(script("fits"), WIDTH)
        assert not page.evaluate(script("fits"), WIDTH + 4)
