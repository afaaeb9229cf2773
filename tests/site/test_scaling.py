"""How far it scales: the page computes what `cudasim` does, offline, by keyboard, and says so."""

import json
import math
import re
import shutil

import pytest
from browsing import opened, violations
from bs4 import BeautifulSoup
from helpers import ROOT
from test_accessibility import STILL, overflows, shift_faults

from cudasim.published_scaling import read, row_of
from cudasim.timing import scaling
from cudasim.timing.scaling import Cluster, Training, links, step_of
from tools.errors import BookError
from tools.site.scaling import COUNTS, GRADIENTS, SERVER, SETTINGS, STEP, ask

PAGE = "book/scaling.html"
EXACT = 1e-9  # relative
CASE = (
    "parameters-1000000_batch-8_step-12p5_bucket-25_gpus-16_server-4_cards-1"
    "_inside-pcie4_between-eth10_type-4"
)

# The same seconds in both languages.

TRAININGS = [
    (0.144, 440_425_712, 25 * 2**20),
    (1.0, 4, 25 * 2**20),  # one number
    (1e-3, 2**20, 25 * 2**20),  # just the first bucket
    (0.01, 2**20 + 1, 25 * 2**20),
    (0.25, 102_228_128, 2**19),  # smaller than the first
    (30.0, 14e9, 25 * 2**20),
]
CLUSTERS = [
    (gpus, server, inside, between, cards)
    for gpus, server, cards in [
        *[(1, 8, 1), (2, 8, 1), (8, 8, 1), (9, 8, 1), (16, 8, 4), (3, 1, 1), (24, 8, 2)],
        *[(1000, 8, 1), (1024, 8, 8), (1024, 1, 1), (1024, 1024, 1), (513, 4, 1)],
    ]
    for inside in links("inside")
    for between in links("between")
]
ASK_PAGE = """([trainings, clusters]) => {
  const links = JSON.parse(document.getElementById("links").textContent);
  const one = (where, id) => links[where].find((link) => link.id === id);
  return trainings.map(([step, gradients, bucket]) =>
    clusters.map(([gpus, server, inside, between, cards]) => {
      const joined = { inside: one("inside", inside), between: one("between", between) };
      const cluster = { gpus, server, cards, ...joined };
      return scalingModel.stepOf({ step, gradients, bucket }, cluster);
    }));
}"""


def differences(found, trainings=TRAININGS, clusters=CLUSTERS):
    """The names of what the page computes otherwise than `cudasim`, for the same case."""
    wrong = set()
    for training, of_training in zip(trainings, found, strict=True):
        for (gpus, server, inside, between, cards), shown in zip(
            clusters, of_training, strict=True
        ):
            joined = links("inside")[inside], links("between")[between]
            expected = step_of(Training(*training), Cluster(gpus, server, *joined, cards))
            for name, value in expected._asdict().items():
                # What is not hidden is the small difference of two large numbers.
                near = EXACT * (expected.step if name == "exposed" else 0)
                if not math.isclose(shown[name], value, rel_tol=EXACT, abs_tol=near):
                    wrong.add(name)
    return wrong


@pytest.fixture(scope="module")
def answers(browser, site):
    """What the page computes for each of TRAININGS and CLUSTERS."""
    with opened(browser, site, PAGE) as (page, _):
        return page.evaluate(ASK_PAGE, [TRAININGS, CLUSTERS])


def test_the_page_computes_what_cudasim_does(answers):
    assert len(TRAININGS) * len(CLUSTERS) >= 1000
    assert differences(answers) == set()


CHANGES = [  # a formula of the page, and what stands in its place
    ("const TREE = 0.9", "const TREE = 0.8"),
    ("const BACKWARD = 2 / 3", "const BACKWARD = 1 / 2"),
    ("const FIRST = 2 ** 20", "const FIRST = 2 ** 22"),
    ("+ inside.latency);", ");"),
    ("Math.ceil(Math.log2(servers))", "Math.floor(Math.log2(servers))"),
    ("2 * (servers - 1) * between.latency", "2 * servers * between.latency"),
    ("between.bandwidth * cards", "between.bandwidth"),
    ("Math.min(ring, tree)", "ring"),
]


def test_a_formula_that_differs_on_the_page_is_noticed(browser, site):
    script = (site / "_static" / "scaling-model.js").read_text(encoding="utf-8")
    trainings, clusters = TRAININGS[:3], CLUSTERS[::3]
    with opened(browser, site, PAGE) as (page, _):
        for formula, instead in CHANGES:
            assert script.count(formula) == 1, formula
            changed = script.replace(formula, instead)
            program = f"given => {{ {changed} return ({ASK_PAGE})(given); }}"
            found = page.evaluate(program, [trainings, clusters])
            assert differences(found, trainings, clusters), formula


def test_a_formula_that_differs_in_cudasim_is_noticed(answers, monkeypatch):
    for name, value in (("TREE", 0.8), ("BACKWARD", 0.5), ("FIRST", 2**22)):
        with monkeypatch.context() as changed:
            changed.setattr(scaling, name, value)
            assert differences(answers)


# What the build embeds.


def soup(site):
    return BeautifulSoup((site / PAGE).read_text(encoding="utf-8"), "html.parser")


def test_the_page_holds_the_links_as_they_are(site):
    embedded = json.loads(soup(site).select_one("#links").string)
    for where, listed in embedded.items():
        known = links(where)
        assert [each["id"] for each in listed] == [*known]
        for each in listed:
            link = known[each["id"]]
            assert (each["name"], each["bandwidth"]) == (link.name, link.bandwidth)
            assert each["latency"] == link.latency


def test_the_table_and_the_plot_say_what_the_model_does(site):
    page = soup(site)
    rows = page.select(".status")[0].select("tbody tr")
    assert [row.td.get_text() for row in rows] == [f"{gpus:,}" for gpus in COUNTS]
    said = page.select_one(".scaling-plot > svg")["aria-label"]
    assert said.startswith("Modelled efficiency")
    for column, setting in enumerate(SETTINGS, start=1):
        joined = links("inside")[setting.inside], links("between")[setting.between]
        for row, gpus in zip(rows, COUNTS, strict=True):
            cluster = Cluster(gpus, SERVER, *joined, setting.cards)
            share = scaling.efficiency(Training(STEP, GRADIENTS), cluster)
            assert row.select("td")[column].get_text() == f"{share:.0%}".replace("%", " %")
        assert f"{setting.name}: " in said and f"{share:.0%} at 1,024" in said


def test_every_published_measurement_is_on_the_page_with_its_ratio(site):
    tables = soup(site).select(".status")[1].select("table")
    rows = [row for table in tables for row in table.select("tbody tr")]
    assert len(rows) == len(read())
    ordered = sorted(read(), key=lambda each: each["kind"] == "all_reduce")
    for row, each in zip(rows, ordered, strict=True):
        cells = [cell.get_text() for cell in row.select("td")]
        assert row.a["href"] == each["source"] and each["hardware"] == cells[1]
        assert f"{row_of(each).ratio:.2f}" in cells


def test_the_prose_says_how_far_it_is_off(site):
    off = [row_of(each) for each in read() if each["kind"] == "training"]
    ratios = sorted(row.ratio for row in off)
    prose = " ".join(soup(site).get_text().split())
    least, most = (round(100 * (ratio - 1)) for ratio in (ratios[0], ratios[-1]))
    assert f"In training the model is always the faster one, by {least} to {most} %." in prose
    limit = next(row for row in off if row.id == "vgg16-horovod-512")
    assert limit.published < 0.7 and 0.9 < limit.ratio < 1.1  # "within a tenth"
    bert = [row.bare / row.published for row in off if row.id.startswith("bert")]
    assert all(0.95 <= ratio <= 1.05 for ratio in bert)  # "within 5 %"


def test_a_broken_file_of_links_fails_the_build_in_one_line(tmp_path):
    source = tmp_path / "cudasim" / "src"
    shutil.copytree(ROOT / "cudasim" / "src", source)
    (source / "cudasim" / "timing" / "links.json").write_text("{}")
    with pytest.raises(BookError, match=r"^cudasim/src: .* fails: KeyError: 'inside'$"):
        ask(tmp_path)


def test_without_scripts_the_page_is_of_use(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        assert "needs JavaScript" in page.locator("main noscript > p").inner_text()
        assert page.locator(".scaling-plot > svg").is_visible()
        assert page.locator(".status table").first.is_visible() and faults == []


# In the hands of a reader.


def said(page):
    return page.locator(".calculator output").inner_text()


def fault(page, name):
    """What is said at a control, if the control is marked and names the place where it is said."""
    control = page.locator(f"[name={name}]")
    place = control.get_attribute("aria-describedby")
    text = page.locator(f"#{place}").inner_text()
    assert (control.get_attribute("aria-invalid") == "true") == bool(text)
    return text


def shows_a_result(page):
    shown = page.locator(".calculator .results").is_visible()
    text = page.locator(".calculator .results td").all_inner_texts()
    assert shown == any(text) == bool(page.locator(".curve > *").count())
    return shown


def go_to(page, fragment):
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    page.wait_for_timeout(50)  # the event comes after


def test_a_case_is_shown_in_words_numbers_and_a_drawing(browser, site):
    joined = links("inside")["pcie4"], links("between")["eth10"]
    training, cluster = Training(0.0125, 4e6), Cluster(16, 4, *joined)
    found = step_of(training, cluster)
    with opened(browser, site, f"{PAGE}#{CASE}") as (page, faults):
        text = said(page)
        assert text.startswith("Modelled, not measured: on 16 GPUs a step takes ")
        efficiency = float(re.search(r"efficiency ([\d.]+) %", text)[1])
        assert efficiency == pytest.approx(100 * 0.0125 / found.step, rel=0.005)
        speed = page.locator("[data-row=speed] td").inner_text().removesuffix(" samples/s")
        assert float(speed.replace(",", "")) == pytest.approx(16 * 8 / found.step, rel=0.005)
        bare = page.locator("[data-row=bare] td").inner_text().removesuffix(" %")
        expected = 100 * 0.0125 / (0.0125 + found.communication)
        assert float(bare) == pytest.approx(expected, rel=0.005)
        label = page.locator(".curve").get_attribute("aria-label")
        assert "on 16 GPUs" in label and label.endswith("Modelled, not measured.")
        for words in page.locator(".calculator :is(caption, figcaption)").all_inner_texts():
            assert "Modelled, not measured" in words
        assert shift_faults(page) == [] and faults == []


def test_it_works_with_the_network_off_and_from_a_disk(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.context.set_offline(True)
        before = said(page)
        page.select_option("[name=between]", "ib400")
        assert said(page) != before and shows_a_result(page)
        assert not any(fault.startswith("script") for fault in faults)
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto((site / PAGE).as_uri())
    page.fill("[name=gpus]", "1")
    assert "on 1 GPU a step takes 144 ms" in said(page)
    assert said(page).endswith("nothing has to be added up.")
    context.close()


def test_it_is_used_by_keyboard_alone(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        page.locator("#field-parameters").focus()
        names = ("type", "batch", "step", "bucket", "gpus", "server", "inside", "between", "cards")
        for name in names:
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.name") == name
        page.keyboard.press("Control+a")
        page.keyboard.type("8")
        page.keyboard.press("Enter")
        assert "cards-8" in page.evaluate("location.href") and shows_a_result(page)
        assert faults == []


BAD = [
    ("gpus", "", "Empty: write a whole number from 1."),
    ("gpus", "0", "0 is too small: the least is 1."),
    ("gpus", "1025", "1025 is too large: the most is 1,024."),
    ("gpus", "2.5", '"2.5" is no whole number: write digits only.'),
    ("parameters", "<b>", '"<b>" is no whole number: write digits only.'),
    ("parameters", "9" * 400, f"{'9' * 400} is too large: the most is 1,000,000,000,000."),
    ("step", "fast", '"fast" is no number: write digits and a point only.'),
    ("step", "0", "0 is too small: the least is 0.001."),
    ("bucket", "1e3", '"1e3" is no number: write digits and a point only.'),
    ("cards", "-1", "-1 is too small: the least is 1."),
]


def test_a_bad_number_gets_one_message_and_no_result(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        for name, text, message in BAD:
            good = page.input_value(f"[name={name}]")
            page.fill(f"[name={name}]", text)
            assert fault(page, name) == message
            assert not shows_a_result(page) and not any(sign.isdigit() for sign in said(page))
            page.fill(f"[name={name}]", good)
            assert fault(page, name) == "" and shows_a_result(page)
        page.fill("[name=parameters]", "1000000000000")
        page.fill("[name=bucket]", "1")
        assert fault(page, "bucket") == "Too small: more than 100,000 buckets a step."
        page.add_style_tag(content=STILL)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) + overflows(page) == []
        assert faults == []


def test_the_page_is_accessible_on_wide_and_narrow_screens(browser, site):
    for width in (1280, 390):
        with opened(browser, site, PAGE, width=width) as (page, faults):
            page.add_style_tag(content=STILL)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert violations(page) + overflows(page) == []
            assert faults == []


def test_an_address_opens_its_case_or_says_what_is_wrong(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        for link in page.locator(".calculator p > a").all():
            link.click()
            page.wait_for_timeout(50)
            assert page.evaluate("location.href").endswith(link.get_attribute("href"))
            assert shows_a_result(page)
        go_to(page, CASE.replace("eth10", "gone"))
        assert fault(page, "between") == 'There is no "gone": choose one of the list.'
        assert not shows_a_result(page)
        go_to(page, CASE)
        page.select_option("[name=between]", "eth25")
        assert page.evaluate("location.hash") == f"#{CASE.replace('eth10', 'eth25')}"
        for fragment in ("the-model", "%", "gpus", "_-_", "step-1"):
            go_to(page, fragment)
            assert shows_a_result(page)
        assert faults == []
