"""The two pages that compute: the same seconds as `cudasim`, offline, from a disk, by keyboard."""

import functools
import math
import re

import pytest
import torch
from browsing import NARROW, opened, script
from bs4 import BeautifulSoup
from faults import layout_faults, look, shift_faults, violations

from cudasim.clock.costs import work_of
from cudasim.timing import formulas
from cudasim.timing.formulas import Work
from cudasim.timing.scaling import Cluster, links
from cudasim.timing.sheets import find_sheet, host_sheet, sheet_names
from facts.published_scaling import read, row_of
from facts.training import WAITED, Training, efficiency, least_efficiency, step_of
from tools.site.models import COUNTS, GRADIENTS, INTERCONNECTS, PRECISIONS, SERVER, STEP

CALCULATOR, SCALING = "book/calculator.html", "book/scaling.html"
aten = torch.ops.aten


def near(one, other, absolute=0.0):
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=absolute)


# The calculator: the same seconds in both languages.

LINKS = ("pinned", "pageable", "peer", "staged", "device")
LARGE = 2**53 - 1  # PyTorch describes no tensor of this size
SHAPES = [(1, 1), (4096, 4096), (7, 10**6), (2**28, 2**28), (LARGE, LARGE)]
SIZES = {
    "matmul": [
        *[(1, 1, 1, 1), (1, 4096, 4096, 4096), (3, 7, 5, 129), (64, 128, 64, 300)],
        *[(1, 1, 10**6, 10**4), (1, 257, 129, 513), (LARGE, LARGE, LARGE, LARGE)],
    ],
    "pointwise": SHAPES,
    "reduction": SHAPES,
    "softmax": [*SHAPES, (64, 12288), (64, 12289)],
    "convolution": [
        *[
            (1, 1, 1, 1, 1),
            (64, 64, 128, 56, 3),
            (256, 3, 6, 32, 5),
            (1, 512, 512, 7, 7),
        ],
        *[
            (8, 64, 32, 1, 1),
            (2**20, 2**10, 2**10, 2**10, 3),
            (LARGE, LARGE, LARGE, LARGE, 3),
        ],
    ],
    "copy": SHAPES,
}
NAMES = dict.fromkeys(SIZES, ("rows", "columns"))
NAMES["matmul"] = ("batch", "m", "n", "k")
NAMES["convolution"] = ("images", "channels", "filters", "side", "kernel")
WORKS = [  # the second size in every precision, each other one in one
    (operation, dict(zip(NAMES[operation], sizes, strict=True)), precision)
    for operation, all_sizes in SIZES.items()
    for place, sizes in enumerate(all_sizes)
    for precision in (
        PRECISIONS if place == 1 else [PRECISIONS[place % len(PRECISIONS)]]
    )
]
CALLS = {  # the operator and what it is given, of tensors that have no data
    "matmul": lambda new, b, m, n, k: (aten.bmm.default, new(b, m, k), new(b, k, n)),
    "pointwise": lambda new, *shape: (aten.add.Tensor, new(*shape), new(*shape)),
    "reduction": lambda new, *shape: (aten.sum.dim_IntList, new(*shape), [1]),
    "softmax": lambda new, *shape: (aten._softmax.default, new(*shape), 1, False),
    "convolution": lambda new, images, channels, filters, side, kernel: (
        aten.convolution.default,
        new(images, channels, side, side),
        new(filters, channels, kernel, kernel),
        *(None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ),
    "copy": lambda new, *shape: (aten.clone.default, new(*shape)),
}


def wrong_seconds(costs, cards):
    """What the page computes otherwise than `cudasim` for work of these costs, on each card."""
    work = {name: costs[name] for name in Work._fields}
    work = Work(**work | {"shape": work["shape"] and tuple(work["shape"])})
    for card, seconds, by_link in cards:
        sheet = find_sheet(card)
        needs, kernel = (
            formulas.bounds(work, sheet),
            formulas.kernel_seconds(work, sheet),
        )
        if not all(map(near, seconds, (*needs, kernel))):
            yield card, "kernel"
        launch = (
            formulas.call_seconds(work, 0, host_sheet(sheet))
            + sheet.launch * work.kernels
        )
        whole = 0 if work.kind == "copy" else max(kernel, launch)
        for link, shown in zip(LINKS, by_link, strict=True):
            moving = sum(
                formulas.copy_seconds(size, sheet, link) for size in costs["operands"]
            )
            if not (near(shown["moving"], moving) and near(shown["computing"], whole)):
                yield card, link
            limit = "compute" if needs[0] > needs[1] else "memory"
            if launch >= kernel or kernel >= 2 * max(needs):
                limit = "launch"
            if (
                shown["limit"] != ("link" if moving > whole else limit)
                and moving != whole
            ):
                yield card, link, shown["limit"]


@pytest.fixture
def products_as_before():
    """Gives PyTorch's products back the precision that a test takes from them."""
    backends = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = [backend.fp32_precision for backend in backends]
    yield backends
    for backend, was in zip(backends, before, strict=True):
        backend.fp32_precision = was


def test_the_calculator_computes_what_cudasim_does_and_books(
    browser, site, products_as_before
):
    with opened(browser, site, CALCULATOR) as (page, _):
        answers = page.evaluate(script("calculated"), [WORKS, LINKS])
    assert [card for card, *_ in answers[0][1]] == sheet_names()
    assert [fault for answer in answers for fault in wrong_seconds(*answer)] == []
    limits = {
        one["limit"] for _, cards in answers for *_, shown in cards for one in shown
    }
    assert limits == {"launch", "memory", "compute", "link"}
    for (operation, sizes, precision), (found, _) in zip(WORKS, answers, strict=True):
        if LARGE in sizes.values():
            continue
        for backend in products_as_before:
            backend.fp32_precision = "tf32" if precision == "tf32" else "ieee"
        dtype = torch.float32 if precision == "tf32" else getattr(torch, precision)
        new = functools.partial(torch.empty, dtype=dtype, device="meta")
        operator, *arguments = CALLS[operation](new, *sizes.values())
        work = work_of(operator, arguments, {}, operator(*arguments))
        assert near(found["flops"], work.flops) and near(found["bytes"], work.bytes), (
            operation
        )
        assert found["kind"] == work.kind and found["kernels"] == work.kernels
        assert found["shape"] == (work.shape and [*work.shape])
        if operation != "copy":  # it computes nothing, in whatever precision
            assert found["precision"] == work.precision
        tensors = [
            value.nbytes for value in arguments if isinstance(value, torch.Tensor)
        ]
        assert found["operands"] == pytest.approx(tensors, rel=1e-9)


# How far it scales: the same seconds in both languages.

TRAININGS = [
    *[(0.144, 440_425_712, 25 * 2**20), (1.0, 4, 25 * 2**20), (30.0, 14e9, 25 * 2**20)],
    *[
        (1e-3, 2**20, 25 * 2**20),
        (0.01, 2**20 + 1, 25 * 2**20),
    ],  # just the first bucket, and more
    (0.25, 102_228_128, 2**19),  # smaller than the first
]
CLUSTERS = [
    (gpus, server, inside, between, cards)
    for gpus, server, cards in [
        *[
            (1, 8, 1),
            (2, 8, 1),
            (8, 8, 1),
            (9, 8, 1),
            (16, 8, 4),
            (3, 1, 1),
            (24, 8, 2),
        ],
        *[(1000, 8, 1), (1024, 8, 8), (1024, 1, 1), (1024, 1024, 1), (513, 4, 1)],
    ]
    for inside in links("inside")
    for between in links("between")
]


def test_the_scaling_page_computes_what_cudasim_does(browser, site):
    with opened(browser, site, SCALING) as (page, _):
        answers = page.evaluate(script("scaled"), [TRAININGS, CLUSTERS])
    for training, of_training in zip(TRAININGS, answers, strict=True):
        for case, shown in zip(CLUSTERS, of_training, strict=True):
            gpus, server, inside, between, cards = case
            joined = links("inside")[inside], links("between")[between]
            asked = Training(*training), Cluster(gpus, server, *joined, cards)
            expected = step_of(*asked)
            assert near(shown["least"], least_efficiency(*asked))
            for name, value in expected._asdict().items():
                # What is not hidden is the small difference of two large numbers.
                absolute = 1e-9 * (expected.step if name == "exposed" else 0)
                assert near(shown[name], value, absolute), (name, training, case)


# What is on the pages without their scripts.


@pytest.mark.parametrize("name", [CALCULATOR, SCALING])
def test_without_scripts_a_page_says_what_it_needs_and_shows_its_table(
    browser, site, name
):
    with opened(browser, site, name, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        assert "needs JavaScript" in page.locator("main noscript > p").inner_text()
        assert page.locator(".status table").first.is_visible()
        assert page.locator(".scaling-plot > svg").count() == (name == SCALING)
        assert faults == []


def soup(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


def cells_of(row):
    return [cell.get_text() for cell in row.select("td")]


def test_the_table_of_the_cards_says_what_cudasim_computes(site):
    rows = soup(site, CALCULATOR).select(".status tbody tr")
    product = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))
    for row, card in zip(rows, sheet_names(), strict=True):
        sheet, cells = find_sheet(card), cells_of(row)
        kernel = formulas.kernel_seconds(product, sheet)
        copy = formulas.copy_seconds(2**30, sheet, "pinned")
        assert [float(cell) / 1000 for cell in cells[-3:-1]] == pytest.approx(
            [kernel, copy], 0.01
        )
        assert (cells[0], cells[-1]) == (card, sheet.provenance["words"])


def test_the_table_and_the_plot_say_what_the_model_does(site):
    page = soup(site, SCALING)
    rows = [cells_of(row) for row in page.select(".status")[0].select("tbody tr")]
    plot = page.select_one(".scaling-plot > svg")["aria-label"]
    for column, setting in enumerate(INTERCONNECTS, start=1):
        joined = links("inside")[setting.inside], links("between")[setting.between]
        for row, gpus in zip(rows, COUNTS, strict=True):
            cluster = Cluster(gpus, SERVER, *joined, setting.cards)
            asked = Training(STEP, GRADIENTS), cluster
            most, least = efficiency(*asked), least_efficiency(*asked)
            assert row[0] == f"{gpus:,}"
            assert row[column] == f"{100 * least:.0f} to {100 * most:.0f} %"
        assert (
            f"{setting.name}: " in plot
            and f"{least:.0%} to {most:.0%} at 1,024" in plot
        )


def test_published_measurements_are_on_the_page_as_far_off_as_it_says(site):
    page = soup(site, SCALING)
    tables = page.select(".status")[1].select("table")
    ordered = sorted(read(), key=lambda figure: figure["kind"] == "all_reduce")
    rows = [row for table in tables for row in table.select("tbody tr")]
    for row, figure in zip(rows, ordered, strict=True):
        cells = cells_of(row)
        assert row.a["href"] == figure["source"] and figure["hardware"] == cells[1]
        assert f"{row_of(figure).ratio:.2f}" in cells
    off = [row_of(figure) for figure in read() if figure["kind"] == "training"]
    least, *_, most = sorted(round(100 * (row.ratio - 1)) for row in off)
    prose = " ".join(page.get_text().split())
    assert (
        f"In training the model is always the faster one, by {least} to {most} %."
        in prose
    )
    limit = next(row for row in off if row.id == "vgg16-horovod-512")
    assert limit.published < 0.7 and 0.9 < limit.ratio < 1.1  # "within a tenth"
    least = {row.id: 1 / (1 / row.bare + WAITED) for row in off}
    outside = [
        row.id for row in off if not least[row.id] <= row.published <= row.modelled
    ]
    assert f"{len(off) - len(outside)} of the {len(off)} runs lie in the band" in prose
    assert [name for name in outside if "amp" not in name and "p100" not in name] == []


# Both in the hands of a reader.

AT_REST = "card-T4_link-pinned_operation-matmul_precision-float32_batch-1_m-4096_n-4096_k-4096"
CASE = (
    "parameters-1000000_batch-8_step-12p5_bucket-25_gpus-16_server-4_cards-1"
    "_inside-pcie4_between-eth10_type-4"
)


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
    """Whether the results are in sight; then, and only then, the table and the drawing are full."""
    shown = page.locator(".calculator .results").is_visible()
    text = page.locator(".calculator .results td").all_inner_texts()
    assert (
        shown == any(text) == bool(page.locator(":is(.roofline, .curve) > *").count())
    )
    return shown


def go_to(page, fragment):
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    page.wait_for_timeout(50)  # the event comes after


def test_the_calculator_says_and_draws_its_numbers(browser, site):
    sheet = find_sheet("T4")
    with opened(browser, site, f"{CALCULATOR}#{AT_REST}") as (page, faults):
        drawings = page.locator("figure > svg").all()
        bars, roofline = (drawing.get_attribute("aria-label") for drawing in drawings)
        captions = page.locator(
            ".calculator :is(caption, figcaption)"
        ).all_inner_texts()
        for words in (said(page), bars, roofline, *captions):
            assert "Modelled for a T4, not measured" in words
        assert (
            sheet.provenance["words"] in page.locator(".calculator .note").inner_text()
        )
        for row in ("moving", "computing"):
            assert (
                f"{row} {page.locator(f'[data-row={row}] td').last.inner_text()}"
                in bars
            )
        assert "Computing: 683 FLOP/byte" in roofline
        assert (
            f"{sheet.bandwidth * sheet.efficiency['memory'] / 1e9:.3g} GB/s" in roofline
        )
        lengths = [
            float(bar.get_attribute("width"))
            for bar in page.locator(".bars rect").all()
        ]
        copy = 2 * formulas.copy_seconds(4 * 4096**2, sheet, "pinned")
        product = Work(
            "matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096)
        )
        ratio = copy / formulas.kernel_seconds(product, sheet)
        assert lengths[0] / lengths[1] == pytest.approx(ratio, rel=0.01)
        assert shift_faults(page) + faults == []


def test_the_scaling_page_says_and_draws_its_numbers(browser, site):
    joined = links("inside")["pcie4"], links("between")["eth10"]
    found = step_of(Training(0.0125, 4e6), Cluster(16, 4, *joined))
    with opened(browser, site, f"{SCALING}#{CASE}") as (page, faults):
        rows = [
            page.locator(f"[data-row={row}] td").inner_text()
            for row in ("speed", "least")
        ]
        efficiency, speed, least = (
            float(re.search(r"([\d.,]+)", text)[1].replace(",", ""))
            for text in (said(page).split("efficiency")[1], *rows)
        )
        assert efficiency == pytest.approx(100 * 0.0125 / found.step, rel=0.005)
        assert speed == pytest.approx(16 * 8 / found.step, rel=0.005)
        slowest = 1.07 * 0.0125 + found.communication
        assert least == pytest.approx(100 * 0.0125 / slowest, rel=0.005)
        curve = page.locator(".curve").get_attribute("aria-label")
        captions = page.locator(
            ".calculator :is(caption, figcaption)"
        ).all_inner_texts()
        for words in (said(page), curve, *captions):
            assert "Modelled, not measured" in words
        assert shift_faults(page) + faults == []


CONTROLS = {  # in the order of the keyboard
    CALCULATOR: "card link operation precision batch m".split(),
    SCALING: "parameters type batch step bucket gpus server inside between cards".split(),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_both_are_used_from_a_disk_with_the_network_off_by_keyboard_alone(
    browser, site, name
):
    context, asked = browser.new_context(offline=True), []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / name).as_uri())
    first, *then = CONTROLS[name]
    page.locator(f"[name={first}]").focus()
    page.keyboard.type(
        "A100"
    )  # chooses from the list of cards, and is no number of parameters
    for control in then:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == control
    page.keyboard.press("Control+a")
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    if name == SCALING:
        assert fault(page, first) and not shows_a_result(page)
        page.fill(f"[name={first}]", "100")
    page.wait_for_function(f"location.hash.includes('{control}-8')")
    assert shows_a_result(page)
    assert ("Modelled for an A100" in said(page)) == (name == CALCULATOR)
    assert asked and all(url.startswith("file:") for url in asked)
    context.close()


BAD = {  # a page, its field, what is written there, and what is said of it
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


@pytest.mark.parametrize("name", BAD)
def test_a_bad_number_gets_one_message_and_no_result(browser, site, name):
    with opened(browser, site, name) as (page, faults):
        case = page.url
        for field, text, message in BAD[name]:
            good = page.input_value(f"[name={field}]")
            page.fill(f"[name={field}]", text)
            assert fault(page, field) == message
            assert page.locator("[aria-invalid=true]").count() == 1
            assert not shows_a_result(page) and not any(
                sign.isdigit() for sign in said(page)
            )
            assert page.url == case
            page.fill(f"[name={field}]", good)
            assert fault(page, field) == "" and shows_a_result(page)
            case = page.url
        page.fill(f"[name={field}]", "0")
        look(page, NARROW, "dark")
        assert violations(page) + layout_faults(page) + faults == []


def test_sizes_that_do_not_go_together_are_refused(browser, site):
    with opened(browser, site, CALCULATOR) as (page, faults):
        page.fill("[name=k]", "none")
        page.select_option("[name=operation]", "softmax")
        assert shows_a_result(page)  # a bad size that is hidden holds nothing back
        page.select_option("[name=operation]", "convolution")
        page.fill("[name=kernel]", "57")
        assert fault(page, "kernel") == "Larger than the image: 56 is the most."
        assert not shows_a_result(page) and faults == []
    with opened(browser, site, SCALING) as (page, faults):
        page.fill("[name=parameters]", "1000000000000")
        page.fill("[name=bucket]", "1")
        assert fault(page, "bucket") == "Too small: more than 100,000 buckets a step."
        assert faults == []


LISTS = (CALCULATOR, AT_REST, ("card", "link", "operation", "precision"))


@pytest.mark.parametrize(
    "name, case, chosen", [LISTS, (SCALING, CASE, ("inside", "between"))]
)
def test_an_address_opens_its_case_or_says_what_is_wrong(
    browser, site, name, case, chosen
):
    with opened(browser, site, name) as (page, faults):
        for control in chosen:
            good = re.search(rf"(?:^|_){control}-(\w+?)_", case)[1]
            go_to(page, case.replace(f"{control}-{good}", f"{control}-gone"))
            assert fault(page, control) == 'There is no "gone": choose one of the list.'
            assert not shows_a_result(page)
            page.select_option(f"[name={control}]", good)
            assert fault(page, control) == "" and shows_a_result(page)
            assert page.url.endswith(case)
        for link in page.locator(".calculator p > a").all():
            link.click()
            page.wait_for_timeout(50)
            assert page.url.endswith(link.get_attribute("href")) and shows_a_result(
                page
            )
        for fragment in (
            "the-model",
            "%",
            "gpus",
            "_-_",
            "m-1",
        ):  # of no case: they do no harm
            go_to(page, fragment)
            assert shows_a_result(page) and faults == []
