"""The colours that mean something are the same in styles, plots and timelines."""

import re

import pytest
from helpers import ROOT

from cudasim.clock import drawing

SHEET = (ROOT / "book" / "static" / "book.css").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"--colour-(\w+): (#\w+);", SHEET))
WRITTEN = dict(re.findall(r"--on-(\w+): (#\w+);", SHEET))
# What the pages of the theme are drawn on.
LIGHT, DARK = "#ffffff", "#121212"
LETTERS = {"white": "#ffffff", "black": "#000000"}


def linear(channel):
    """Return the light of a channel, given as two hexadecimal digits."""
    share = int(channel, 16) / 255
    if share <= 0.04045:
        return share / 12.92
    return ((share + 0.055) / 1.055) ** 2.4


def luminance(colour):
    """Return the relative luminance of a colour, 0 to 1, as WCAG 2.2 defines it."""
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    red, green, blue = (linear(digits[at : at + 2]) for at in (0, 2, 4))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour, background):
    dark, light = sorted([luminance(colour), luminance(background)])
    return (light + 0.05) / (dark + 0.05)


def test_styles_and_drawings_have_the_same_colours():
    assert NAMED == drawing.COLOURS
    # Nothing is written on the colour for waiting.
    assert set(WRITTEN) == set(drawing.LETTERS) == set(NAMED) - {"wait"}


@pytest.mark.parametrize("background", [LIGHT, DARK])
@pytest.mark.parametrize("name", NAMED)
def test_a_colour_is_seen_on_every_page(name, background):
    assert contrast(NAMED[name], background) >= 3


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_on_a_colour_can_be_read(name):
    assert contrast(NAMED[name], WRITTEN[name]) >= 4.5
    drawn = LETTERS[drawing.LETTERS[name]]
    assert contrast(NAMED[name], drawn) >= 4.5
