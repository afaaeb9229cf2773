"""Every page, for every reader: axe-core, width, words for what is seen, weight, search.

Each page is opened once, and examined light and dark, wide and narrow. For each check a
page with the fault shows that the check notices it.
"""

import base64
import functools
import os

import pytest
from browsing import doctor, opened, opened_text, violations
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from helpers import ROOT

from tools.bench import page_limit
from tools.book.book import Book
from tools.browsing import weights

WIDE, NARROW = 1280, 360
STILL = "*, *::before, *::after { transition: none !important }"  # axe sees colours half-way


def looks(page):
    """Show the page light and dark, wide and narrow, one after the other."""
    page.add_style_tag(content=STILL)
    for width in (WIDE, NARROW):
        if page.viewport_size["width"] != width:
            page.set_viewport_size({"width": width, "height": 740})
            page.wait_for_timeout(400)  # the theme's script waits 300 ms before it looks again
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            yield f"{scheme}, {width}"


def overflows(page):
    """What is wider than the window, and the text that its box cuts off."""
    return page.evaluate(
        """() => {
          const root = document.documentElement, found = [];
          if (root.scrollWidth > root.clientWidth) found.push(`page: ${root.scrollWidth} wide`);
          for (const box of document.body.querySelectorAll("*")) {
            if (box.clientWidth < 2 || box.clientHeight < 2 || !box.checkVisibility()) continue;
            const style = getComputedStyle(box), hides = side => /hidden|clip/.test(side);
            const wide = box.scrollWidth > box.clientWidth + 1 && hides(style.overflowX);
            const high = box.scrollHeight > box.clientHeight + 1 && hides(style.overflowY);
            if ((wide || high) && box.innerText && box.innerText.trim())
              found.push(`cut off: ${box.outerHTML.slice(0, 120)}`);
          }
          return found;
        }"""
    )


def head_faults(page):
    """What is missing or double among the words about the page."""
    return page.evaluate(
        """() => {
          const tags = name => [...document.querySelectorAll(`meta[name=${name}]`)];
          const said = tags("description").map(tag => tag.content.trim());
          const found = document.title.trim() ? [] : ["no title"];
          if (said.length !== 1 || !said[0]) found.push(`descriptions: ${said}`);
          if (tags("viewport").length !== 1) found.push(`viewports: ${tags("viewport").length}`);
          return found;
        }"""
    )


def favicon_faults(page):
    """Whether the page names an icon, and the icon is an image."""
    return page.evaluate(
        """async () => {
          const link = document.querySelector("link[rel=icon]");
          if (!link) return ["no favicon"];
          const icon = new Image();
          icon.src = link.href;
          return icon.decode().then(() => [], () => [`no image: ${link.href}`]);
        }"""
    )


def image_faults(page):
    """Images without words for what they show, without a true size, or out of shape."""
    return page.evaluate(
        """() => [...document.images].flatMap(image => {
          const says = (image.getAttribute("alt") || "").trim(), found = [];
          const [wide, high] = ["width", "height"].map(side => +image.getAttribute(side));
          if (!says || /\\.(svg|png|jpe?g)$/.test(says)) found.push(`alt: "${says}"`);
          if (!wide || !high) found.push("no size");
          else if (Math.abs(wide / high / (image.naturalWidth / image.naturalHeight) - 1) > 0.02)
            found.push(`size ${wide} x ${high}, not its own`);
          const { width, height } = image.getBoundingClientRect();
          if (height && Math.abs(width / height / (wide / high) - 1) > 0.05)
            found.push(`out of shape: ${width} x ${height}`);
          return found.map(fault => `${fault}: ${image.src}`);
        })"""
    )


def shift_faults(page):
    """Whether what was already shown moved while the page loaded (0.1 is held to be too much)."""
    shift = page.evaluate(
        """() => new Promise(resolve => {
          let sum = 0;
          new PerformanceObserver(list => list.getEntries().forEach(one => { sum += one.value; }))
            .observe({type: "layout-shift", buffered: true});
          setTimeout(() => resolve(sum), 500);
        })"""
    )
    return [f"moves by {shift:.2f}"] if shift > 0.02 else []


def icon_faults(page, site):
    """Icons that the page shows and no font of the site can draw."""
    shown = page.evaluate(
        """() => [...document.querySelectorAll("*")].flatMap(box => ["::before", "::after"].map(
          part => getComputedStyle(box, part)).filter(
          style => style.fontFamily.includes("Font Awesome")).map(
          style => style.content.replaceAll('"', ""))).filter(text => text && text != "none")"""
    )
    return [f"no font draws {icon!r}" for icon in sorted(set(shown) - drawn(site))]


@functools.cache
def drawn(site):
    """All characters that the fonts of a site draw."""
    return {chr(code) for font in site.rglob("*.woff2") for code in TTFont(font).getBestCmap()}


def font_faults(page):
    """Text in sight that asks for another font than the site's own."""
    return page.evaluate(
        """() => [...document.querySelectorAll("body, body *")].flatMap(box => {
          const text = [...box.childNodes].some(node => node.nodeType === 3 && node.data.trim());
          const family = getComputedStyle(box).fontFamily;
          return !text || /^"Book (Text|Code)"/.test(family) || !box.checkVisibility() ? []
            : [`${family}: ${box.outerHTML.slice(0, 120)}`];
        })"""
    )


def formula_faults(page):
    """The formulas that are not drawn, and those that take no room, as TeX."""
    drawings = page.locator(".formula svg").all()
    boxes = [(drawing.get_attribute("aria-label"), drawing.bounding_box()) for drawing in drawings]
    unseen = [tex for tex, box in boxes if not box or not box["width"] or not box["height"]]
    return unseen + ["not drawn"] * page.locator(".math").count()


def weight_faults(site, asked, name=""):
    """Whether the files of `site` that a page asked for weigh too much, each compressed."""
    weight = sum(weights(site, asked).values())
    return [f"weighs {weight / 1024:.0f} KiB"] if weight >= page_limit(name) * 1024 else []


def unmarked(page):
    """The controls of the page that look the same with and without the keyboard's focus."""
    page.add_style_tag(content=STILL)
    found, seen = [], 0
    while True:
        page.keyboard.press("Tab")
        control = page.evaluate(
            """() => {
              const box = document.activeElement;
              if (box === document.body || box.dataset.seen) return null;
              box.dataset.seen = "yes";
              const look = () => {
                const { outline, boxShadow, backgroundColor } = getComputedStyle(box);
                return outline + boxShadow + backgroundColor;
              };
              const marked = look();
              box.blur();
              const plain = look();
              box.focus();
              return [marked !== plain, box.outerHTML.slice(0, 120)];
            }"""
        )
        if control is None:
            assert seen
            return found
        seen += 1
        if not control[0]:
            found.append(control[1])


NARROWED = "notebooks/computing-devices.html"
PAGES = sorted(f"{name}.html" for name in (*Book().documents, "search"))


def test_these_are_all_pages(site):
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert built - {"index.html"} == set(PAGES)  # which only leads to another page
    assert any('class="formula' in (site / name).read_text(encoding="utf-8") for name in PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_no_fault(browser, site, name):
    asked = []
    with opened(browser, site, name, asked, until="networkidle") as (page, faults):
        found = {
            "load": faults,
            "weight": weight_faults(site, asked, name),
            "shift": shift_faults(page),
            "head": head_faults(page),
            "favicon": favicon_faults(page),
            "icons": icon_faults(page, site),
            "fonts": font_faults(page),
        }
        for look in looks(page):
            # Colours do not depend on the width: one page stands for all narrow ones.
            wide = page.viewport_size["width"] == WIDE
            found[f"axe, {look}"] = violations(page, contrast=wide or name == NARROWED)
            found[f"images, {look}"] = image_faults(page)
            found[f"overflow, {look}"] = overflows(page)
            found[f"formulas, {look}"] = formula_faults(page)
        page.reload(wait_until="networkidle")  # now dark and narrow from the start
    assert {check: faults for check, faults in found.items() if faults} == {}


@pytest.mark.parametrize("words", ["title", "meta[name=description]"])
def test_no_two_pages_say_the_same_of_themselves(site, words):
    pages = [BeautifulSoup((site / name).read_bytes(), "html.parser") for name in PAGES]
    said = [str(page.select(words)) for page in pages]
    assert sorted(said) == sorted(set(said))


@pytest.mark.parametrize(
    ("control", "opens", "width"),
    [
        (".dropdown-download-buttons > button", ".dropdown-menu.show", WIDE),
        (".search-button-field", "dialog#pst-search-dialog", WIDE),
        (".primary-toggle", "dialog#pst-primary-sidebar-modal", NARROW),
        (".secondary-toggle", "dialog#pst-secondary-sidebar-modal", NARROW),
    ],
)
def test_what_buttons_open_has_no_fault(browser, site, control, opens, width):
    with opened(browser, site, "book/status.html", width=width) as (page, faults):
        page.add_style_tag(content=STILL)
        page.click(control)
        page.wait_for_selector(opens)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            faults += violations(page) + overflows(page)
        assert faults == []


LAST = f"notebooks/{[*Book(ROOT).chapters][-1]}"


@pytest.mark.parametrize("name", ["search", "book/calculator", LAST])
def test_the_keyboard_shows_where_it_is(browser, site, name):
    with opened(browser, site, f"{name}.html") as (page, _):
        assert unmarked(page) == []


def results(page, words):
    """The addresses that the search page finds for `words`, typed into its field."""
    page.fill("main form.bd-search input", words)
    with page.expect_navigation(wait_until="networkidle"):
        page.keyboard.press("Enter")
    page.wait_for_function("/finished|did not match/.test(document.body.innerText)")
    links = page.locator("#search-results li a")
    paths = links.evaluate_all("links => links.map(link => new URL(link.href).pathname)")
    return {path.lstrip("/") for path in paths}


WORD, CHAPTER = "pinned", "notebooks/copying-between-devices.html"


def test_search_finds_a_chapter_and_asks_nobody_else(browser, site):
    with opened(browser, site, "search.html") as (page, faults):
        assert CHAPTER in results(page, WORD)
        assert results(page, "xylophone") == set()
        assert faults == []


def test_any_page_leads_to_the_search_by_keyboard(browser, site):
    with opened(browser, site, CHAPTER) as (page, faults):
        page.keyboard.press("Control+k")
        page.keyboard.type(WORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?*", wait_until="networkidle")
        assert page.locator("#search-results li a").count()
        assert faults == []


def test_a_search_that_finds_nothing_is_noticed(browser, doctored):
    doctor(doctored, "searchindex.js", f'"{WORD[:3]}', '"gone')
    with opened(browser, doctored, "search.html") as (page, _):
        assert CHAPTER not in results(page, WORD)


FONT = ROOT / "book" / "static" / "fonts" / "text-latin.woff2"
WHOLE = f"""<!doctype html><html lang="en"><head><title>A page</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="A page without a fault."><link rel="icon" href="icon.svg">
<style>@font-face {{
  font-family: "Book Text";
  src: url(data:font/woff2;base64,{base64.b64encode(FONT.read_bytes()).decode()});
}}</style></head><body hidden style="font-family: 'Book Text'"><main><h1>A page</h1>
<img src="icon.svg" alt="A square" width="20" height="10">
<span class="formula"><svg role="img" aria-label="n" width="9" height="9"/></span></main>
<script>
  document.fonts.load("1em 'Book Text'").then(() => {{ document.body.hidden = false }});
</script></body></html>"""
SHOWN = "body:not([hidden])"  # its font is there
ICON = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><path d="M0 0h9v9"/></svg>'
# A button would have a font of the system, and there may be none.
BUTTON = '<button aria-label="Do" style="font: inherit">Go</button>'
CUT = '<p style="width: 3em; overflow: hidden; white-space: nowrap">A long line of text</p>'
# Paragraphs of one class: the second has a look, or a ground, of its own.
ALIKE = [
    f"<style>p:nth-of-type(2) {{ {rule}: #555 }}</style><p>One</p><p>Two</p>" + 3 * "<p>Three</p>"
    for rule in ("opacity: 0.5; color", "background")
]
LATE = """<script>setTimeout(() => {
  document.querySelector("h1").style.marginTop = "400px" }, 200)</script>"""


@pytest.mark.parametrize(
    ("check", "part", "instead", "fault"),
    [
        (violations, "</main>", '<p style="color: #aaa">Faint</p></main>', "color-contrast"),
        (violations, "</main>", f"{ALIKE[0]}</main>", "color-contrast"),
        (violations, "</main>", f"{ALIKE[1]}</main>", "color-contrast"),
        (violations, "<main>", "<p>Outside</p><main>", "region"),
        (violations, "</main>", f"{BUTTON}</main>", "label-content"),
        (overflows, "</main>", '<p style="width: 2000px">Wide</p></main>', "page: 20"),
        (overflows, "</main>", f"{CUT}</main>", "cut off"),
        (head_faults, "<title>A page</title>", "", "no title"),
        (head_faults, 'content="A page without a fault."', 'content=""', "descriptions"),
        (head_faults, "</head>", '<meta name="viewport" content="x"></head>', "viewports: 2"),
        (favicon_faults, 'rel="icon"', 'rel="other"', "no favicon"),
        (favicon_faults, 'href="icon.svg"', 'href="missing.svg"', "no image"),
        (image_faults, 'alt="A square"', "", "alt"),
        (image_faults, 'alt="A square"', 'alt="_images/1a2b.svg"', "alt"),
        (image_faults, 'height="10"', "", "no size"),
        (image_faults, 'height="10"', 'height="20"', "size 20 x 20"),
        (image_faults, 'height="10"', 'height="10" style="height: 40px"', "out of shape"),
        (font_faults, "<h1>", '<h1 style="font-family: Arial">', "Arial: <h1"),
        (shift_faults, "</main>", f"</main>{LATE}", "moves by"),
        (formula_faults, 'class="formula"', 'class="formula" hidden', "n"),
        (formula_faults, "</main>", '<span class="math">n</span></main>', "not drawn"),
        (unmarked, "</main>", '<a href="#" style="outline: none">Away</a></main>', "<a href"),
    ],
)
def test_a_fault_is_noticed(browser, tmp_path, check, part, instead, fault):
    assert part in WHOLE
    (tmp_path / "icon.svg").write_text(ICON)
    with opened_text(browser, tmp_path, WHOLE.replace(part, instead, 1)) as (page, _):
        page.wait_for_selector(SHOWN)
        assert any(found.startswith(fault) for found in check(page))


def test_a_page_without_a_fault_passes(browser, tmp_path):
    (tmp_path / "icon.svg").write_text(ICON)
    checks = violations, overflows, head_faults, favicon_faults, image_faults, font_faults
    with opened_text(browser, tmp_path, WHOLE) as (page, faults):
        page.wait_for_selector(SHOWN)
        for check in (*checks, formula_faults, shift_faults):
            faults += check(page)
        assert faults == []


def test_an_icon_that_no_font_draws_is_noticed(browser, doctored):
    doctor(doctored, "**/pydata-sphinx-theme.css", '"\\f062"', '"\\f6ff"')  # an arrow
    with opened(browser, doctored, CHAPTER) as (page, _):
        assert icon_faults(page, doctored) == ["no font draws '\\uf6ff'"]


@pytest.mark.parametrize(
    ("name", "size", "heavy"),
    [
        ("book/preface.html", 1, False),
        ("book/preface.html", 150, True),
        ("notebooks/what-costs-time.html", 205, False),
        ("notebooks/what-costs-time.html", 250, True),
    ],
)
def test_a_heavy_page_is_noticed(browser, tmp_path, name, size, heavy):
    (tmp_path / "icon.svg").write_bytes(os.urandom(size * 1024))  # gzip makes it no smaller
    asked = []
    with opened_text(browser, tmp_path, WHOLE, asked=asked):
        assert bool(weight_faults(tmp_path, asked, name)) == heavy
