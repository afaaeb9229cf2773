"""Symptom, cause, cure in a browser: found by words, by a whole message, by keyboard, or not."""

from browsing import NARROW, opened, script
from faults import layout_faults, look, violations
from helpers import ROOT

from tools.book.book import Book
from tools.book.symptoms import symptoms_of

PAGE = "notebooks/symptoms.html"
BOX, COUNT = "#symptom-words", "#symptom-count"
SYMPTOMS = symptoms_of(Book(ROOT).chapters["symptoms"])
OLD = (  # as PyTorch 2.7 said it, with a file of the reader's own
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
    """The titles in sight: those of the symptoms, and those of the list, which are the same."""
    titles, listed = page.evaluate(script("seen"))
    assert titles == listed
    return titles


def test_a_reader_finds_a_symptom_by_its_words_or_is_told_what_to_do(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        count, everything = (
            len(SYMPTOMS),
            [plain(symptom.title) for symptom in SYMPTOMS],
        )
        assert (
            shown(page) == everything and page.inner_text(COUNT) == f"{count} symptoms"
        )
        for words, first in WORDS.items():
            page.fill(BOX, words)
            found = shown(page)
            assert found[0].startswith(first) and len(found) < 30
            assert page.inner_text(COUNT) == f"{len(found)} of {count} symptoms"
        for symptom in SYMPTOMS:
            page.fill(BOX, symptom.message or symptom.title)
            assert plain(symptom.title) in shown(page)
        page.fill(BOX, OLD)  # has names of its own: the nearest is found
        assert any("mat1 is on cpu" in title for title in shown(page))
        assert "have most of them" in page.inner_text(COUNT)
        page.fill(BOX, "xylophone")
        assert shown(page) == [] and "search the whole book" in page.inner_text(COUNT)
        # A link to what is not shown shows all again.
        page.evaluate("document.querySelector('.symptom-list a').click()")
        page.wait_for_function(f"document.querySelector('{BOX}').value === ''")
        assert shown(page) == everything
        page.fill(BOX, "xylophone")
        page.emulate_media(media="print")
        assert page.locator("section > h3:visible").count() == count
        assert faults == []


def test_a_symptom_is_found_by_keyboard_alone_and_the_search_of_the_book_is_near(
    browser, site
):
    with opened(browser, site, PAGE) as (page, faults):
        live = page.locator(COUNT)
        assert (live.get_attribute("role"), live.get_attribute("aria-live")) == (
            "status",
            "polite",
        )
        page.focus(BOX)
        page.keyboard.type("fragmentation")
        first = shown(page)[0]
        look(page, NARROW, "dark")
        assert layout_faults(page) + violations(page) == []
        page.keyboard.press("Enter")  # to the first that is found
        assert page.evaluate("document.activeElement.textContent") == first
        page.keyboard.press("Enter")
        page.wait_for_function("location.hash.length > 1")
        page.wait_for_timeout(
            50
        )  # the event comes after, and would clear what is typed before
        page.fill(BOX, "pinned")
        with page.expect_navigation():
            page.click(".symptom-search button")
        assert page.url.endswith("search.html?q=pinned") and faults == []


def test_readers_without_scripts_have_them_all(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert page.locator("section > h3:visible").count() == len(SYMPTOMS)
        assert not page.locator(BOX).is_visible() and faults == []
