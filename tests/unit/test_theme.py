"""The theme's extension: icons and fonts that the site brings itself, labels in sight."""

import re

import pytest
from fontTools.ttLib import TTFont
from helpers import ROOT

STATIC = ROOT / "book" / "static"
ICON = re.compile(r"\bfa-[a-z0-9-]+")
# A rule that draws icons: their names, and the code of the character in a font.
DRAWING_RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\(\w+)"\}')
STYLED = re.compile(r"\.(fa-[\w-]+)[^:\w-]")
# A character of those that icons have, written out or escaped.
LETTER = re.compile("[\ue000-\uf8ff]")
ESCAPE = re.compile(r"\\([ef][0-9a-f]{3})(?![0-9a-f])")
CLASSES = re.compile(r'class="([^"]*)"')
SCRIPT = re.compile(r'<script[^>]* src="([^"?:]*)["?]')


def read(path):
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def style_sheets(site):
    return [read(path) for path in site.rglob("*.css")]


def test_every_character_of_an_icon_is_in_the_fonts(site, style_sheets):
    in_fonts = set()
    for path in (site / "_static" / "vendor").rglob("*.woff2"):
        in_fonts.update(TTFont(path).getBestCmap())

    written = set()
    for sheet in style_sheets:
        written.update(ord(letter) for letter in LETTER.findall(sheet))
        written.update(int(code, 16) for code in ESCAPE.findall(sheet))
        written.update(int(code, 16) for _, code in DRAWING_RULE.findall(sheet))
    assert written
    assert {f"{code:x}" for code in written - in_fonts} == set()


def icons_on(site):
    """Return the names of the icons that pages and their scripts use."""
    icons = set()
    scripts = set()
    for page in site.rglob("*.html"):
        text = read(page)
        for classes in CLASSES.findall(text):
            icons.update(ICON.findall(classes))
        for source in SCRIPT.findall(text):
            scripts.add((page.parent / source).resolve())
    for script in scripts:
        icons.update(ICON.findall(read(script)))
    return icons


def test_every_icon_of_the_pages_is_drawn(site, style_sheets):
    drawn = set()
    for sheet in style_sheets:
        drawn.update(STYLED.findall(sheet))
        for names, _ in DRAWING_RULE.findall(sheet):
            drawn.update(ICON.findall(names))
    icons = icons_on(site)
    assert "fa-sun" in icons
    assert icons - drawn == set()


# The numbers of names that a reader may see, as OpenType has them.
LICENCE = 13
NAMES = (1, 2, 3, 4, 6, 16, 25)


@pytest.mark.parametrize(
    "path", sorted(STATIC.glob("fonts/*.woff2")), ids=lambda p: p.stem
)
def test_a_font_has_its_licence_but_not_the_reserved_name(path):
    names = {record.nameID: str(record) for record in TTFont(path)["name"].names}
    assert "Adobe" in names[0]
    assert "Open Font License" in names[LICENCE]
    for number in NAMES:
        assert "Source" not in names.get(number, "")
