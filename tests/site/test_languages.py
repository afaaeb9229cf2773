"""The site in other languages: the same pages and anchors, a switch, and searches."""

import pytest
from browsing import opened
from faults import weight_faults
from helpers import ROOT
from markup import dead_links, head_faults, in_sight, page_of, undrawn_characters

from tools.languages.language import read_languages
from tools.languages.translated_book import TranslatedBook

LANGUAGES = read_languages(ROOT)
PAGES = []  # pairs of the code of a language and a page that is translated
for code, language in LANGUAGES.items():
    for name in TranslatedBook(ROOT, language=language).translated:
        PAGES.append((code, name))
HEAVIEST = "notebooks/what-costs-time.html"


def sections(page):
    return [section["id"] for section in page.select("article section[id]")]


@pytest.mark.parametrize(("code", "name"), PAGES)
def test_a_translated_page_has_the_places_of_the_english_one(site, code, name):
    page = page_of(site, f"{code}/{name}.html")
    english = page_of(site, f"{name}.html")
    assert sections(page)
    assert sections(page) == sections(english)
    assert page.html["lang"] == LANGUAGES[code].tag
    assert not page.select(".in-english")
    assert page.title.string != english.title.string
    assert dead_links(page, site / code / f"{name}.html") == []
    assert head_faults(page) == []
    # For Chinese, a reader's system has letters.
    if code != "zh":
        assert undrawn_characters(in_sight(page)) == []


def test_a_page_that_is_not_translated_says_so(site):
    page = page_of(site, "vi/book/glossary.html")
    [note] = page.select(".in-english")
    assert note.find_previous("h1")
    assert page.html["lang"] == "en"


HEADING = "how-do-i-copy-an-array-to-another-gpu"
# Whether that heading is at the head of the window, once the page has moved there.
AT_HEADING = (
    "scrollY > 999 &&"
    f" Math.abs(document.getElementById('{HEADING}').getBoundingClientRect().top) < 200"
)


def test_the_switch_keeps_the_place_and_the_framework(browser, site):
    name = "notebooks/gpus-in-twenty-minutes.html"
    with opened(browser, site, f"{name}?framework=jax#{HEADING}") as (page, faults):
        page.wait_for_function(AT_HEADING)
        page.evaluate("document.querySelector('.languages [lang=vi]').click()")
        page.wait_for_url(f"**/vi/{name}?framework=jax#{HEADING}")
        page.wait_for_function(AT_HEADING)
        assert page.locator("input[value=jax]").is_checked()
        assert faults == []


@pytest.mark.parametrize(
    ("code", "query"),
    [("zh", "反向传播"), ("vi", "bo nho"), ("vi", "bộ nhớ"), ("vi", "đồng bộ")],
)
def test_each_language_is_searched_in_its_own_way(browser, site, code, query):
    with opened(browser, site, f"{code}/search.html?q={query}") as (page, faults):
        page.wait_for_selector("#search-results li a")
        results = page.locator("#search-results li a")
        links = results.evaluate_all("all => all.map(a => a.href)")
        assert any("what-takes-memory" in link for link in links)
        assert faults == []


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_translated_page_is_light(browser, site, code):
    requests = []
    with opened(browser, site, f"{code}/{HEAVIEST}", requests) as (_, faults):
        assert weight_faults(site, requests) + faults == []


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_prediction_is_judged_in_the_language(browser, site, code):
    with opened(browser, site, f"{code}/{HEAVIEST}") as (page, faults):
        cover = page.locator("details.covered[data-right]").first
        right = int(cover.get_attribute("data-right"))
        page.locator(".prediction").first.locator("button").nth(right).click()
        verdict = page.locator(".chosen").first.inner_text()
        assert verdict
        assert "Right" not in verdict
        assert cover.get_attribute("open") is not None
        assert faults == []
