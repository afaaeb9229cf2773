"""The calculators: their tables and drawings, and their use by keyboard, offline, from a disk."""

import re

import pytest
from browsing import NARROW, opened
from bs4 import BeautifulSoup
from faults import layout_faults, look, shift_faults, violations

from cudasim.timing import formulas
from cudasim.timing.formulas import Work
from cudasim.timing.scaling import Cluster, links
from cudasim.timing.sheets import find_sheet, sheet_names
from facts.published_scaling import read, row_of
from facts.training import WAITED, Training, efficiency, least_efficiency, step_of
from tools.site.models import COUNTS, GRADIENTS, INTERCONNECTS, SERVER, STEP

CALCULATOR = "book/calculator.html"
SCALING = "book/scaling.html"
# A product of two matrices of 4,096 rows and columns.
PRODUCT = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))


# What is on the pages without their scripts.


@pytest.mark.parametrize("name", [CALCULATOR, SCALING])
def test_without_scripts_a_page_shows_its_table(browser, site, name):
    with opened(browser, site, name, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        assert "needs JavaScript" in page.locator("main noscript > p").inner_text()
        assert page.locator(".status table").first.is_visible()
        assert page.locator(".scaling-plot > svg").count() == (name == SCALING)
        assert faults == []


def soup(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def rows_of(table):
    """Return the texts of the cells in each row of the body of a table."""
    rows = []
    for row in table.select("tbody tr"):
        rows.append([cell.get_text() for cell in row.select("td")])
    return rows


def test_the_table_of_the_cards_says_what_cudasim_computes(site):
    rows = rows_of(soup(site, CALCULATOR).select_one(".status"))
    for row, card in zip(rows, sheet_names(), strict=True):
        sheet = find_sheet(card)
        name, *_, product, copy, provenance = row
        seconds = formulas.kernel_seconds(PRODUCT, sheet)
        assert float(product) == pytest.approx(1000 * seconds, 0.01)
        seconds = formulas.copy_seconds(2**30, sheet, "pinned")
        assert float(copy) == pytest.approx(1000 * seconds, 0.01)
        assert name == card
        assert provenance == sheet.provenance["words"]


def test_the_table_and_the_plot_say_what_the_model_does(site):
    page = soup(site, SCALING)
    rows = rows_of(page.select_one(".status"))
    plot = page.select_one(".scaling-plot > svg")["aria-label"]
    training = Training(STEP, GRADIENTS)
    assert [row[0] for row in rows] == [f"{gpus:,}" for gpus in COUNTS]
    for column, setting in enumerate(INTERCONNECTS, start=1):
        inside = links("inside")[setting.inside]
        between = links("between")[setting.between]
        for row, gpus in zip(rows, COUNTS, strict=True):
            cluster = Cluster(gpus, SERVER, inside, between, setting.cards)
            least = least_efficiency(training, cluster)
            most = efficiency(training, cluster)
            assert row[column] == f"{100 * least:.0f} to {100 * most:.0f} %"
        assert f"{setting.name}: " in plot
        # The last of them.
        assert f"{least:.0%} to {most:.0%} at 1,024" in plot


def test_published_measurements_are_on_the_page(site):
    tables = soup(site, SCALING).select(".status")[1].select("table")
    rows = [row for table in tables for row in table.select("tbody tr")]
    # Those of training come first.
    measurements = sorted(read(), key=lambda figure: figure["kind"] == "all_reduce")
    for row, measurement in zip(rows, measurements, strict=True):
        cells = [cell.get_text() for cell in row.select("td")]
        assert row.a["href"] == measurement["source"]
        assert cells[1] == measurement["hardware"]
        assert f"{row_of(measurement).ratio:.2f}" in cells


def test_the_page_says_how_far_off_the_model_is(site):
    prose = " ".join(soup(site, SCALING).get_text().split())
    runs = [row_of(figure) for figure in read() if figure["kind"] == "training"]
    percents = [round(100 * (run.ratio - 1)) for run in runs]
    by = f"by {min(percents)} to {max(percents)} %"
    assert f"For training, the model is always too fast, {by}." in prose

    outside = []
    for run in runs:
        lower_edge = 1 / (1 / run.bare + WAITED)
        if not lower_edge <= run.published <= run.modelled:
            outside.append(run.id)
    inside = len(runs) - len(outside)
    assert f"{inside} of the {len(runs)} runs lie inside the band" in prose
    # The runs of DistributedDataParallel do.
    assert [id for id in outside if "amp" not in id and "p100" not in id] == []

    # "If the network really is the limit, the upper edge is accurate to within a tenth."
    [limited] = [run for run in runs if run.id == "vgg16-horovod-512"]
    assert limited.published < 0.7
    assert 0.9 < limited.ratio < 1.1


# Both in the hands of a reader.

AT_REST = "card-T4_link-pinned_operation-matmul_precision-float32_batch-1_m-4096_n-4096_k-4096"
CASE = (
    "parameters-1000000_batch-8_step-12p5_bucket-25_gpus-16_server-4_cards-1"
    "_inside-pcie4_between-eth10_type-4"
)


def result(page):
    """Return the sentence that says the result."""
    return page.locator(".calculator output").inner_text()


def fault(page, name):
    """Return what is said at a control, which is marked if something is."""
    control = page.locator(f"[name={name}]")
    place = control.get_attribute("aria-describedby")
    text = page.locator(f"#{place}").inner_text()
    is_marked = control.get_attribute("aria-invalid") == "true"
    assert is_marked == bool(text)
    return text


def shows_a_result(page):
    """Return whether results are in sight; if not, the table and the drawing are empty."""
    is_shown = page.locator(".calculator .results").is_visible()
    texts = page.locator(".calculator .results td").all_inner_texts()
    drawn = page.locator(":is(.roofline, .curve) > *").count()
    assert any(texts) == is_shown
    assert (drawn > 0) == is_shown
    return is_shown


def row_in(page, name):
    return page.locator(f"[data-row={name}] td").last.inner_text()


def first_number(text):
    return float(re.search(r"[\d.,]+", text)[0].replace(",", ""))


def captions(page):
    return page.locator(".calculator :is(caption, figcaption)").all_inner_texts()


def go_to(page, fragment):
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    # The event comes after.
    page.wait_for_timeout(50)


def test_the_calculator_says_and_draws_its_numbers(browser, site):
    sheet = find_sheet("T4")
    with opened(browser, site, f"{CALCULATOR}#{AT_REST}") as (page, faults):
        drawings = page.locator("figure > svg").all()
        bars, roofline = (drawing.get_attribute("aria-label") for drawing in drawings)
        for words in (result(page), bars, roofline, *captions(page)):
            assert "Modelled for a T4, not measured" in words
        note = page.locator(".calculator .note").inner_text()
        assert sheet.provenance["words"] in note
        for row in ("moving", "computing"):
            assert f"{row} {row_in(page, row)}" in bars
        assert "Computing: 683 FLOP/byte" in roofline
        bandwidth = sheet.bandwidth * sheet.efficiency["memory"]
        assert f"{bandwidth / 1e9:.3g} GB/s" in roofline

        moving, computing, *_ = page.locator(".bars rect").all()
        drawn = width_of(moving) / width_of(computing)
        copies = 2 * formulas.copy_seconds(4 * 4096**2, sheet, "pinned")
        ratio = copies / formulas.kernel_seconds(PRODUCT, sheet)
        assert drawn == pytest.approx(ratio, rel=0.01)
        assert shift_faults(page) + faults == []


def width_of(bar):
    return float(bar.get_attribute("width"))


def test_the_scaling_page_says_and_draws_its_numbers(browser, site):
    cluster = Cluster(16, 4, links("inside")["pcie4"], links("between")["eth10"])
    step = step_of(Training(0.0125, 4e6), cluster)
    with opened(browser, site, f"{SCALING}#{CASE}") as (page, faults):
        _, efficiency = result(page).split("efficiency")
        percent = 100 * 0.0125 / step.step
        assert first_number(efficiency) == pytest.approx(percent, rel=0.005)
        samples = 16 * 8 / step.step
        assert first_number(row_in(page, "speed")) == pytest.approx(samples, rel=0.005)
        slowest = 1.07 * 0.0125 + step.communication
        percent = 100 * 0.0125 / slowest
        assert first_number(row_in(page, "least")) == pytest.approx(percent, rel=0.005)

        curve = page.locator(".curve").get_attribute("aria-label")
        for words in (result(page), curve, *captions(page)):
            assert "Modelled, not measured" in words
        assert shift_faults(page) + faults == []


# In the order of the keyboard.
CONTROLS = {
    CALCULATOR: "card link operation precision batch m".split(),
    SCALING: "parameters type batch step bucket gpus server inside between cards".split(),
}


@pytest.fixture
def offline(browser):
    """A page without a network, and the addresses of what it requests."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    yield page, requests
    context.close()


def walk_by_tab(page, controls):
    for control in controls:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == control


def write_over(page, text):
    page.keyboard.press("Control+a")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_the_calculator_is_used_from_a_disk_by_keyboard(offline, site):
    page, requests = offline
    page.goto((site / CALCULATOR).as_uri())
    page.locator("[name=card]").focus()
    # This chooses from the list of cards.
    page.keyboard.type("A100")
    walk_by_tab(page, CONTROLS[CALCULATOR][1:])
    write_over(page, "8")
    page.wait_for_function("location.hash.includes('m-8')")
    assert shows_a_result(page)
    assert "Modelled for an A100" in result(page)
    assert requests
    assert [url for url in requests if not url.startswith("file:")] == []


def test_the_scaling_page_is_used_from_a_disk_by_keyboard(offline, site):
    page, requests = offline
    page.goto((site / SCALING).as_uri())
    page.locator("[name=parameters]").focus()
    page.keyboard.type("A100")
    walk_by_tab(page, CONTROLS[SCALING][1:])
    write_over(page, "8")
    assert fault(page, "parameters")
    assert not shows_a_result(page)
    page.fill("[name=parameters]", "100")
    page.wait_for_function("location.hash.includes('cards-8')")
    assert shows_a_result(page)
    assert requests
    assert [url for url in requests if not url.startswith("file:")] == []


# By page: a field, what is written there, and what the page says to it.
BAD_NUMBERS = {
    CALCULATOR: [
        ("m", "", "Empty: write a whole number from 1."),
        ("m", "-4", "-4 is too small: the least is 1."),
        ("m", "<b>1</b>", '"<b>1</b>" is no whole number: write digits only.'),
        ("m", "9" * 400, "Too large: beyond 2^53 numbers are not exact."),
        ("m", "1000000", "Does not fit: this needs 30.6 GiB, and the T4 has 14.6 GiB."),
    ],
    SCALING: [
        ("gpus", "1025", "1025 is too large: the most is 1,024."),
        ("parameters", "<b>", '"<b>" is no whole number: write digits only.'),
        ("step", "fast", '"fast" is no number: write digits and a point only.'),
        ("step", "0", "0 is too small: the least is 0.001."),
    ],
}


@pytest.mark.parametrize("name", BAD_NUMBERS)
def test_a_bad_number_gets_one_message_and_no_result(browser, site, name):
    with opened(browser, site, name) as (page, faults):
        for field, text, message in BAD_NUMBERS[name]:
            address = page.url
            good = page.input_value(f"[name={field}]")
            page.fill(f"[name={field}]", text)
            assert fault(page, field) == message
            assert page.locator("[aria-invalid=true]").count() == 1
            assert not shows_a_result(page)
            assert re.search(r"\d", result(page)) is None
            assert page.url == address

            page.fill(f"[name={field}]", good)
            assert fault(page, field) == ""
            assert shows_a_result(page)
        page.fill(f"[name={field}]", "0")
        look(page, NARROW, "dark")
        assert violations(page) + layout_faults(page) + faults == []


def test_sizes_that_do_not_go_together_are_refused(browser, site):
    with opened(browser, site, CALCULATOR) as (page, faults):
        page.fill("[name=k]", "none")
        page.select_option("[name=operation]", "softmax")
        # A bad size that is hidden holds nothing back.
        assert shows_a_result(page)
        page.select_option("[name=operation]", "convolution")
        page.fill("[name=kernel]", "57")
        assert fault(page, "kernel") == "Larger than the image: 56 is the most."
        assert not shows_a_result(page)
        assert faults == []
    with opened(browser, site, SCALING) as (page, faults):
        page.fill("[name=parameters]", "1000000000000")
        page.fill("[name=bucket]", "1")
        assert fault(page, "bucket") == "Too small: more than 100,000 buckets a step."
        assert faults == []


# By page: the fragment of a case, and what is chosen in it from a list.
LISTS = {
    CALCULATOR: (
        AT_REST,
        {
            "card": "T4",
            "link": "pinned",
            "operation": "matmul",
            "precision": "float32",
        },
    ),
    SCALING: (CASE, {"inside": "pcie4", "between": "eth10"}),
}


@pytest.mark.parametrize("name", LISTS)
def test_an_address_opens_its_case_or_says_what_is_wrong(browser, site, name):
    case, chosen = LISTS[name]
    with opened(browser, site, name) as (page, faults):
        for control, option in chosen.items():
            go_to(page, case.replace(f"{control}-{option}", f"{control}-gone"))
            assert fault(page, control) == 'There is no "gone": choose one of the list.'
            assert not shows_a_result(page)
            page.select_option(f"[name={control}]", option)
            assert fault(page, control) == ""
            assert shows_a_result(page)
            assert page.url.endswith(case)
        assert faults == []


@pytest.mark.parametrize("name", LISTS)
def test_links_and_other_fragments_do_no_harm(browser, site, name):
    with opened(browser, site, name) as (page, faults):
        links_to_cases = page.locator(".calculator p > a").all()
        assert links_to_cases
        for link in links_to_cases:
            link.click()
            page.wait_for_timeout(50)
            assert page.url.endswith(link.get_attribute("href"))
            assert shows_a_result(page)
        # These are of no case.
        for fragment in ("the-model", "%", "gpus", "_-_", "m-1"):
            go_to(page, fragment)
            assert shows_a_result(page)
        assert faults == []
