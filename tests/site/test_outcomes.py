"""What raises, what copies, what moves silently: the table, its filter, what its words lead to."""

from browsing import NARROW, opened
from faults import layout_faults, look, violations

PAGE = "notebooks/what-raises.html"
ROWS = ".outcomes tbody tr:not(.group):visible"
# Of each word of the table: is it what the program that it leads to printed first?
TRUE = """() => [...document.querySelectorAll(".outcomes td a")].map(word =>
  document.getElementById(word.hash.slice(1)).querySelector(".cell_output").textContent
    .trim().split("\\n")[0] === word.textContent)"""


def test_a_reader_asks_what_happens_and_is_led_to_the_program(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        assert page.evaluate(TRUE) == [True] * 160 and page.locator(ROWS).count() == 40
        page.select_option(".symptom-search select", "not")
        count = page.locator("section > h3:visible").count()
        assert 0 < count < 20 and page.locator(ROWS).count() == count
        page.select_option(".symptom-search select", "raises")
        page.fill("#symptom-words", "incompatible devices for jitted computation")
        row = page.locator(ROWS, has_text="Add an array of one number")
        look(page, NARROW, "dark")
        assert layout_faults(page) + violations(page) == []
        row.locator("td").nth(1).get_by_role("link").press("Enter")  # JAX's
        page.wait_for_function("document.documentElement.dataset.framework === 'jax'")
        assert page.locator(".framework:target").get_by_text("float32[]").is_visible()
        assert faults == []


def test_readers_without_scripts_have_the_table_and_all_programs(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert page.locator(ROWS).count() == 40 and faults == []
        page.click(".outcomes td:last-child a >> nth=6")
        assert page.locator(".framework.mxnet:target").is_visible()
