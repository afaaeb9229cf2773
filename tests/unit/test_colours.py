"""The colours that mean something are the same in styles, plots, timelines and figures."""

import math
import re
from itertools import combinations

import pytest
from helpers import ROOT

from cudasim.clock import drawing

SHEET = (ROOT / "book" / "static" / "book.css").read_text(encoding="utf-8")
NAMED = dict(re.findall(r"--colour-(\w+): (#\w+);", SHEET))
WRITTEN = dict(re.findall(r"--on-(\w+): (#\w+);", SHEET))
LIGHT, DARK = "#ffffff", "#121212"  # the pages of the theme
LETTERS = {"white": "#ffffff", "black": "#000000"}
HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
FIGURES = sorted(
    path for path in (ROOT / "img").glob("*.svg") if path.stem not in ("logo", "favicon")
)


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def linear(colour):
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def lightness(colour):
    """The relative luminance of a colour, 0 to 1 (WCAG 2.2)."""
    colour = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    return dot((0.2126, 0.7152, 0.0722), linear(colour))


def contrast(one, other):
    """From 1 to 21 (WCAG 2.2)."""
    light, dark = sorted((lightness(one), lightness(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_styles_and_drawings_have_the_same_colours_seen_on_light_and_on_dark():
    assert NAMED == drawing.COLOURS and set(NAMED) == {"host", "gpu0", "gpu1", "copy", "wait"}
    for colour in NAMED.values():
        assert min(contrast(colour, page) for page in (LIGHT, DARK)) >= 3
    assert set(WRITTEN) == set(drawing.LETTERS) == set(NAMED) - {"wait"}
    for name, letters in WRITTEN.items():
        assert contrast(NAMED[name], letters) >= 4.5
        assert contrast(NAMED[name], LETTERS[drawing.LETTERS[name]]) >= 4.5


# Of those who lack the cones for long or middle waves; Viénot, Brettel and Mollon, 1999:
# "Digital video colourmaps for checking the legibility of displays by dichromats", in linear
# RGB as https://daltonlens.org/understanding-cvd-simulation derives them.
SIGHTS = {
    "protanopia": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deuteranopia": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
}


def seen(colour, sight):
    """A colour as such a reader sees it, in CIE L*a*b*."""
    light = linear(colour)
    if sight:
        light = [dot(row, light) for row in SIGHTS[sight]]
    red, green, blue = (min(max(part, 0), 1) for part in light)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    x, y, z = (c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("sight", [None, *SIGHTS])
def test_bars_are_told_apart_by_readers_of_every_sight(sight):
    """A wait may come near another, for it is hatched."""
    points = [seen(colour, sight) for name, colour in NAMED.items() if name != "wait"]
    assert min(math.dist(*pair) for pair in combinations(points, 2)) > 15  # 2.3 is just noticed


def foreign(drawing):
    """Colours of a drawing that are none of those named, and no grey, tint or dark letter."""
    found = {colour.lower() for colour in HEX.findall(drawing)} - set(NAMED.values())
    spread = {c: [int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in found}
    return sorted(
        colour
        for colour, parts in spread.items()
        if max(parts) - min(parts) > 40 and 0.06 < lightness(colour) < 0.5
    )


def test_figures_are_drawn_in_these_colours():
    found = {path.stem: foreign(path.read_text(encoding="utf-8")) for path in FIGURES}
    assert {name: colours for name, colours in found.items() if colours} == {}
    assert foreign('<path fill="#4a7ab5" stroke="#0072B2"/>') == ["#4a7ab5"]
