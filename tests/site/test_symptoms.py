"""Symptoms, causes and fixes in a browser: found by words, a whole message or keyboard, or not."""

from browsing import NARROW, opened, script
from faults import layout_faults, look, violations
from helpers import ROOT

from tools.book.book import Book
from tools.book.reference import symptoms_of

PAGE = "notebooks/symptoms.html"
BOX, COUNT = "#symptom-words", "#symptom-count"
SYMPTOMS = symptoms_of(Book(ROOT).chapters["symptoms"])
# As PyTorch 2.7 said it, with a file of the reader's own.
OLD = (
    'File "train.py", line 37, in step RuntimeError: Expected all tensors to be on the same '
    "device, but found at least two devices, cuda:1 and cpu! (when checking argument for argument "
    "mat1 in method wrapper_CUDA_addmm)"
)
WORDS = {
    "TO BE ON   the same device": "Expected all tensors",
    "pinned only cannot": "cannot pin",
    "device-side assert triggered": "CUDA error: device-side assert",
    "2d_index not implemented for 'Float'": '"nll_loss_forward',
}


def plain(title):
    return title.replace("`", "")


def shown(page):
    """Return the titles in sight, which are the same as those in the list."""
    titles, listed = page.evaluate(script("seen"))
    assert titles == listed
    return titles


TITLES = [plain(symptom.title) for symptom in SYMPTOMS]


def test_a_symptom_is_found_by_its_words(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        assert shown(page) == TITLES
        assert page.inner_text(COUNT) == f"{len(TITLES)} symptoms"
        for words, first in WORDS.items():
            page.fill(BOX, words)
            titles = shown(page)
            assert titles[0].startswith(first)
            assert len(titles) < 30
            count = f"{len(titles)} of {len(TITLES)} symptoms"
            assert page.inner_text(COUNT) == count
        for symptom in SYMPTOMS:
            page.fill(BOX, symptom.message or symptom.title)
            assert plain(symptom.title) in shown(page)
        assert faults == []


def test_for_other_words_the_nearest_symptom_is_found(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.fill(BOX, OLD)
        assert "mat1 is on cpu" in "\n".join(shown(page))
        assert "have most of them" in page.inner_text(COUNT)
        assert faults == []


def test_where_nothing_is_found_a_reader_is_told_what_to_do(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.fill(BOX, "xylophone")
        assert shown(page) == []
        assert "search the whole book" in page.inner_text(COUNT)
        # A link to what is not shown shows all again.
        page.evaluate("document.querySelector('.symptom-list a').click()")
        page.wait_for_function(f"document.querySelector('{BOX}').value === ''")
        assert shown(page) == TITLES
        page.fill(BOX, "xylophone")
        page.emulate_media(media="print")
        assert page.locator("section > h3:visible").count() == len(TITLES)
        assert faults == []


def test_a_symptom_is_found_by_keyboard_alone(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        live = page.locator(COUNT)
        assert live.get_attribute("role") == "status"
        assert live.get_attribute("aria-live") == "polite"
        page.focus(BOX)
        page.keyboard.type("fragmentation")
        first = shown(page)[0]
        look(page, NARROW, "dark")
        assert layout_faults(page) + violations(page) == []
        # It leads to the first that is found.
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.textContent") == first
        page.keyboard.press("Enter")
        page.wait_for_function("location.hash.length > 1")
        assert faults == []


def test_the_search_of_the_book_is_near(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.fill(BOX, "pinned")
        with page.expect_navigation():
            page.click(".symptom-search button")
        assert page.url.endswith("search.html?q=pinned")
        assert faults == []


def test_readers_without_scripts_have_them_all(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert page.locator("section > h3:visible").count() == len(SYMPTOMS)
        assert not page.locator(BOX).is_visible()
        assert faults == []
