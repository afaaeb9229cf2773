"""The theme's extension: fonts cut to the icons in use, labels in sight."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pydata_sphinx_theme
import pytest
from fontTools.ttLib import TTFont
from sphinx.errors import ExtensionError

from tools.site import theme

FONTS = "theme/pydata_sphinx_theme/static/vendor/fontawesome/webfonts"
SHEET = """@font-face{src:url(../webfonts/fa.woff2) format("woff2"),\
url(../webfonts/fa.ttf) format("truetype")}
.fa-lg{font-size:2em}.fa-moon:before{content:"\\f186"}.fa-cog:before,.fa-gear:before\
{content:"\\f013"}.fa-sun:before{content:"\\f185"}.fa-xmark:before{content:"\\f00d"}
.note:after{content:"\\f0f3"} .tip { --lamp: "\uf0eb"; }"""
PAGE = '<script src="_static/do.js?v=1"></script><i class="fa-solid fa-sun fa-lg">fa-moon</i>'


@pytest.fixture
def cut(tmp_path):
    """A site of one page, with a style sheet, a script and the theme's font of icons."""
    static = tmp_path / "_static"
    (static / "webfonts").mkdir(parents=True)
    source = Path(pydata_sphinx_theme.__file__).parent / FONTS / "fa-solid-900.woff2"
    shutil.copy(source, static / "webfonts" / "fa.woff2")
    (static / "webfonts" / "fa.ttf").touch()
    (static / "fa.css").write_text(SHEET + ".fa-solid{font-weight:900}", encoding="utf-8")
    (static / "do.js").write_text('button.className = "fa-gear"')
    (static / "macros.html").write_text('<i class="fa-xmark">')  # no page
    (static / "other.js").write_text('"fa-moon"')  # no page loads it
    (tmp_path / "page.html").write_text(PAGE)
    return tmp_path


def characters(site):
    return set(TTFont(site / "_static" / "webfonts" / "fa.woff2").getBestCmap())


def test_only_icons_in_use_remain_in_one_small_font(cut):
    theme.keep_used_icons(cut)
    # sun: the page; gear: a script; bell and lamp: the style sheet itself
    assert characters(cut) == {0xF185, 0xF013, 0xF0F3, 0xF0EB}
    sheet = (cut / "_static" / "fa.css").read_text(encoding="utf-8")
    assert "fa-moon" not in sheet and "fa-xmark" not in sheet
    assert '.fa-cog:before,.fa-gear:before{content:"\\f013"}.fa-sun:before' in sheet
    assert ".fa-lg{font-size:2em}" in sheet
    # Fonts for old browsers are left out.
    assert not list(cut.rglob("*.ttf")) and "ttf" not in sheet
    assert (cut / "_static" / "webfonts" / "fa.woff2").stat().st_size < 3000
    once = {path: path.read_bytes() for path in cut.rglob("*.*")}
    theme.keep_used_icons(cut)
    assert {path: path.read_bytes() for path in cut.rglob("*.*")} == once


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("page.html", '<i class="fa-solid fa-sunn"></i>', "does not have: fa-sunn$"),
        ("_static/fa.css", '.new:before{content:"\\e999"}', "no font of the theme has: e999$"),
    ],
)
def test_an_icon_that_is_nowhere_is_reported(cut, file, text, fault):
    with (cut / file).open("a") as added:
        added.write(text)
    with pytest.raises(ExtensionError, match=fault):
        theme.keep_used_icons(cut)


def test_a_build_that_failed_is_left_alone(cut):
    app = SimpleNamespace(outdir=cut, builder=SimpleNamespace(format="html"))
    before = characters(cut)
    theme.lighten(app, RuntimeError("failed"))
    assert characters(cut) == before
    theme.lighten(app, None)
    assert characters(cut) != before


def test_a_page_loads_what_is_for_code_only_if_it_holds_some(site):
    for path in [*site.glob("book/*.html"), *site.glob("notebooks/*.html")]:
        page = path.read_text(encoding="utf-8")
        code, cells = '<div class="highlight' in page, re.search('class="cell[ "]', page)
        assert ("copybutton.js" in page) == ("clipboard.min.js" in page) == code, path.name
        assert ("_static/mystnb." in page) == bool(cells), path.name
    assert "copybutton" not in (site / "book" / "preface.html").read_text(encoding="utf-8")


def test_a_folded_cell_is_labelled_by_its_text(site):
    pages = [page.read_text(encoding="utf-8") for page in site.glob("notebooks/*.html")]
    assert any("<summary>" in page for page in pages)
    assert not any("<summary aria-label" in page for page in pages)
