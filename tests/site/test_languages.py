"""The site in other languages: the same pages and anchors, a switch, and searches."""

import pytest
from browsing import opened
from helpers import ROOT
from test_pages import weight_faults
from test_text import dead_ends, head_faults, in_sight, page_of, undrawn

from tools.languages.language import read_languages
from tools.languages.translated_book import TranslatedBook

LANGUAGES = read_languages(ROOT)
TRANSLATED = [
    TranslatedBook(ROOT, language=language) for language in LANGUAGES.values()
]
PAGES = [(each.language.code, page) for each in TRANSLATED for page in each.translated]
HEAVIEST = "notebooks/what-costs-time.html"


def anchors(page):
    return [tag["id"] for tag in page.select("article section[id]")]


@pytest.mark.parametrize(("code", "name"), PAGES)
def test_a_translated_page_has_the_places_of_the_english_one(site, code, name):
    page, english = page_of(site, f"{code}/{name}.html"), page_of(site, f"{name}.html")
    assert anchors(page) == anchors(english) and anchors(page)
    assert page.html["lang"] == LANGUAGES[code].tag and not page.select(".in-english")
    assert page.title.string != english.title.string
    assert dead_ends(page, site / code / f"{name}.html") == [] == head_faults(page)
    if code != "zh":  # for which the reader's system has letters
        assert undrawn(in_sight(page)) == []


def test_a_page_that_is_not_translated_says_so(site):
    page = page_of(site, "vi/book/glossary.html")
    [note] = page.select(".in-english")
    assert note.find_previous("h1") and page.html["lang"] == "en"


# Whether a heading is at the head of the window, once the page has moved there.
THERE = "scrollY > 999 && Math.abs(copying.getBoundingClientRect().top) < 200"


def test_the_switch_keeps_the_place_and_the_framework(browser, site):
    page_name = "notebooks/gpus-in-twenty-minutes.html"
    with opened(browser, site, f"{page_name}?framework=jax#copying") as (page, faults):
        page.wait_for_function(THERE)
        page.evaluate("document.querySelector('.languages [lang=vi]').click()")
        page.wait_for_url(f"**/vi/{page_name}?framework=jax#copying")
        page.wait_for_function(THERE)
        assert page.locator("input[value=jax]").is_checked()
        assert faults == []


@pytest.mark.parametrize(
    ("code", "query"),
    [("zh", "显存峰值"), ("vi", "bo nho"), ("vi", "bộ nhớ"), ("vi", "đồng bộ")],
)
def test_each_language_is_searched_in_its_own_way(browser, site, code, query):
    with opened(browser, site, f"{code}/search.html?q={query}") as (page, faults):
        page.wait_for_selector("#search-results li a")
        links = page.locator("#search-results li a").evaluate_all(
            "all => all.map(a => a.href)"
        )
        assert any("what-takes-memory" in link for link in links)
        assert faults == []


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_page_is_light_and_a_prediction_says_right_or_wrong_in_the_language(
    browser, site, code
):
    asked = []
    with opened(browser, site, f"{code}/{HEAVIEST}", asked) as (page, faults):
        assert weight_faults(site, asked) == []
        cover = page.locator("details.covered[data-right]").first
        right = int(cover.get_attribute("data-right"))
        cell = page.locator(".cell", has=cover).first
        page.locator(".prediction").first.locator("button").nth(right).click()
        said = cell.locator(".chosen").inner_text()
        assert said and "Right" not in said and cover.get_attribute("open") is not None
        assert faults == []
