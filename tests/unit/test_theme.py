"""The theme's extension: icons and fonts that the site brings itself, labels in sight."""

import re

from fontTools.ttLib import TTFont
from helpers import ROOT

STATIC = ROOT / "book" / "static"
ICON = re.compile(r"\bfa-[a-z0-9-]+")
RULE = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\(\w+)"\}')
WRITTEN = re.compile(r"[\ue000-\uf8ff]|\\[ef][0-9a-f]{3}(?![0-9a-f])")


def read(path):
    return path.read_text(encoding="utf-8")


def test_every_icon_of_the_pages_is_in_the_fonts(site):
    fonts = [*(site / "_static" / "vendor").rglob("*.woff2")]
    held = {code for path in fonts for code in TTFont(path).getBestCmap()}
    drawn, styled = set(), set()
    for sheet in map(read, site.rglob("*.css")):
        styled.update(name for name in re.findall(r"\.(fa-[\w-]+)[^:\w-]", sheet))
        for names, code in RULE.findall(sheet):
            assert int(code, 16) in held, names
            drawn.update(ICON.findall(names))
        for sign in WRITTEN.findall(sheet):
            code = int(sign[1:], 16) if sign[0] == "\\" else ord(sign)
            assert code in held, f"{code:x}"
    used, scripts = set(), set()
    for page in site.rglob("*.html"):
        text = read(page)
        used.update(ICON.findall(" ".join(re.findall(r'class="([^"]*)"', text))))
        sources = re.findall(r'<script[^>]* src="([^"?:]*)["?]', text)
        scripts.update((page.parent / source).resolve() for source in sources)
    used.update(name for script in scripts for name in ICON.findall(read(script)))
    assert "fa-sun" in used and used - drawn - styled == set()


def test_a_font_has_its_licence_but_not_the_reserved_name():
    for path in STATIC.glob("fonts/*.woff2"):
        names = {record.nameID: str(record) for record in TTFont(path)["name"].names}
        assert "Adobe" in names[0] and "Open Font License" in names[13], path
        assert all(
            "Source" not in names.get(number, "") for number in (1, 2, 3, 4, 6, 16, 25)
        )
