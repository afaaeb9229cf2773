"""Symptom, cause, cure in a browser: found by words, by a whole message, by keyboard, or not."""

import pytest
from browsing import doctor, opened, violations
from helpers import ROOT
from test_accessibility import NARROW, STILL, overflows

from tools.book.book import Book
from tools.rules.symptoms import symptoms_of

PAGE = "notebooks/symptoms.html"
BOX, COUNT = "#symptom-words", "#symptom-count"
SYMPTOMS = symptoms_of(Book(ROOT).chapters["symptoms"])
OLD = (  # as PyTorch 2.7 said it, with a file of the reader's own
    'File "train.py", line 37, in step RuntimeError: Expected all tensors to be on the same '
    "device, but found at least two devices, cuda:1 and cpu! (when checking argument for argument "
    "mat1 in method wrapper_CUDA_addmm)"
)


def plain(title):
    return title.replace("`", "")


SEEN = """place => [...document.querySelectorAll(place)]
  .filter(each => each.checkVisibility()).map(each => each.textContent.replace(/#$/, ""))"""
ASK = """([box, texts]) => texts.map(text => {
  const field = document.querySelector(box);
  field.value = text;
  field.dispatchEvent(new Event("input"));
  return [...document.querySelectorAll("section > h3")].filter(each => each.checkVisibility())
    .map(each => each.textContent.replace(/#$/, ""));
})"""


def shown(page):
    """The titles in sight: those of the symptoms, and those of the list, which must be the same."""
    titles = page.evaluate(SEEN, "section > h3")
    assert page.evaluate(SEEN, ".symptom-list li li a") == titles
    return titles


def test_all_are_listed_and_counted_at_first(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        assert shown(page) == [plain(each.title) for each in SYMPTOMS]
        assert page.inner_text(COUNT) == f"{len(SYMPTOMS)} symptoms"
        assert faults == []


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("out of memory", "CUDA out of memory"),
        ("TO BE ON   the same device", "Expected all tensors"),
        ("pinned only cannot", "cannot pin"),
        ("device-side assert triggered", "Target 10 is out of bounds"),
        ("expected scalar type Long but found Float", "expected target dtype"),
    ],
)
def test_words_find_their_symptoms(browser, site, words, first):
    with opened(browser, site, PAGE) as (page, faults):
        page.fill(BOX, words)
        found = shown(page)
        assert found[0].startswith(first) and len(found) < 30
        assert page.inner_text(COUNT) == f"{len(found)} of {len(SYMPTOMS)} symptoms"
        page.fill(BOX, "")
        assert len(shown(page)) == len(SYMPTOMS)
        assert faults == []


def test_every_message_finds_its_own_symptom(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        texts = [each.message or each.title for each in SYMPTOMS]
        for each, found in zip(SYMPTOMS, page.evaluate(ASK, [BOX, texts]), strict=True):
            assert plain(each.title) in found


def test_a_whole_message_with_names_of_ones_own_finds_the_nearest(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.fill(BOX, OLD)
        assert any("mat1 is on cpu" in title for title in shown(page))
        assert "have most of them" in page.inner_text(COUNT)


def test_who_finds_nothing_is_told_what_to_do(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.fill(BOX, "xylophone")
        assert shown(page) == []
        assert "search the whole book" in page.inner_text(COUNT)
        page.fill(BOX, "pinned")
        with page.expect_navigation():
            page.click(".symptom-search button")
        assert page.url.endswith("search.html?q=pinned")
        assert faults == []


def test_the_count_is_announced_and_the_keyboard_is_enough(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        live = page.locator(COUNT)
        assert (live.get_attribute("role"), live.get_attribute("aria-live")) == ("status", "polite")
        page.focus(BOX)
        page.keyboard.type("fragmentation")
        first = shown(page)[0]
        page.keyboard.press("Enter")  # to the first that is found
        assert page.evaluate("document.activeElement.textContent") == first
        page.keyboard.press("Enter")
        page.wait_for_function("location.hash.length > 1")


def test_a_link_to_what_is_not_shown_shows_all_again(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.fill(BOX, "xylophone")
        page.evaluate("document.querySelector('.symptom-list a').click()")
        page.wait_for_function(f"document.querySelector('{BOX}').value === ''")
        assert len(shown(page)) == len(SYMPTOMS)


@pytest.mark.parametrize("width", [1280, NARROW])
@pytest.mark.parametrize("words", ["out of memory", "xylophone"])
def test_what_the_search_shows_has_no_fault(browser, site, words, width):
    with opened(browser, site, PAGE, width=width) as (page, faults):
        page.add_style_tag(content=STILL)
        page.fill(BOX, words)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) + overflows(page) + faults == []


def test_paper_and_readers_without_scripts_have_them_all(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.fill(BOX, "xylophone")
        page.emulate_media(media="print")
        assert page.locator("section > h3:visible").count() == len(SYMPTOMS)
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert page.locator("section > h3:visible").count() == len(SYMPTOMS)
        assert not page.locator(BOX).is_visible()
        assert faults == []


def test_a_search_that_finds_all_whatever_is_typed_is_noticed(browser, doctored):
    doctor(doctored, "_static/symptoms.js", "held[i] === most", "true")
    doctor(doctored, "_static/symptoms.js", "each.text.includes(plain", "!(0, plain")
    with opened(browser, doctored, PAGE) as (page, _):
        page.fill(BOX, "pinned only cannot")
        assert len(shown(page)) == len(SYMPTOMS)
