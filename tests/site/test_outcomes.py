"""What raises, what copies, what moves silently: the table, its filter and its links."""

from browsing import NARROW, opened
from faults import layout_faults, look, violations

PAGE = "notebooks/what-raises.html"
ROWS = ".outcomes tbody tr:not(.group):visible"
# Of each word of the table: is it what the program that it leads to printed first?
TRUE = """() => [...document.querySelectorAll(".outcomes td a")].map(word =>
  document.getElementById(word.hash.slice(1)).querySelector(".cell_output").textContent
    .trim().split("\\n")[0] === word.textContent)"""


def test_every_word_of_the_table_is_what_its_program_printed(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        printed = page.evaluate(TRUE)
        assert all(printed)
        # Four frameworks are asked for each row.
        assert len(printed) == 4 * page.locator(ROWS).count() > 0
        assert faults == []


def test_a_reader_is_led_from_an_outcome_to_its_program(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        every = page.locator(ROWS).count()
        page.select_option(".symptom-search select", "not")
        count = page.locator("section > h3:visible").count()
        assert 0 < count < every
        assert page.locator(ROWS).count() == count

        page.select_option(".symptom-search select", "raises")
        page.fill("#symptom-words", "incompatible devices for jitted computation")
        row = page.locator(
            ROWS, has_text="Add an array with a single number on the CPU"
        )
        look(page, NARROW, "dark")
        assert layout_faults(page) + violations(page) == []
        in_jax = row.locator("td").nth(1)
        in_jax.get_by_role("link").press("Enter")
        page.wait_for_function("document.documentElement.dataset.framework === 'jax'")
        assert page.locator(".framework:target").get_by_text("float32[]").is_visible()
        assert faults == []


def test_without_scripts_the_table_leads_to_all_programs(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        programs = page.locator("section > h3:visible").count()
        assert page.locator(ROWS).count() == programs
        page.click(".outcomes td:last-child a >> nth=6")
        assert page.locator(".framework.mxnet:target").is_visible()
        assert faults == []
