"""The colours that mean something are the same in styles, plots and timelines."""

import re

from helpers import ROOT

from cudasim.clock import drawing

SHEET = (ROOT / "book" / "static" / "book.css").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"--colour-(\w+): (#\w+);", SHEET))
WRITTEN = dict(re.findall(r"--on-(\w+): (#\w+);", SHEET))
LIGHT, DARK = "#ffffff", "#121212"  # the pages of the theme
LETTERS = {"white": "#ffffff", "black": "#000000"}


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def linear(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def lightness(colour):
    """The relative luminance of a colour, 0 to 1 (WCAG 2.2)."""
    colour = (
        colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    )
    return dot((0.2126, 0.7152, 0.0722), linear(colour))


def contrast(one, other):
    light, dark = sorted((lightness(one), lightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_styles_and_drawings_have_the_same_colours_seen_on_light_and_on_dark():
    assert NAMED == drawing.COLOURS and set(NAMED) == {
        "host",
        "gpu0",
        "gpu1",
        "copy",
        "wait",
    }
    for colour in NAMED.values():
        assert min(contrast(colour, page) for page in (LIGHT, DARK)) >= 3
    assert set(WRITTEN) == set(drawing.LETTERS) == set(NAMED) - {"wait"}
    for name, letters in WRITTEN.items():
        assert contrast(NAMED[name], letters) >= 4.5
        assert contrast(NAMED[name], LETTERS[drawing.LETTERS[name]]) >= 4.5
