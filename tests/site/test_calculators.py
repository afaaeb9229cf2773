"""The two pages that compute: the same seconds as `cudasim`, offline, from a disk, by keyboard."""

import functools
import math
import re
import shutil
from contextlib import contextmanager

import pytest
import torch
from browsing import NARROW, layout_faults, look, opened, shift_faults, violations
from bs4 import BeautifulSoup
from helpers import ROOT

from cudasim.clock.costs import work_of
from cudasim.published_scaling import read, row_of
from cudasim.timing import formulas, scaling
from cudasim.timing.formulas import Work
from cudasim.timing.scaling import Cluster, Training, links, step_of
from cudasim.timing.sheets import find_sheet, host_sheet, sheet_names
from tools.errors import BookError
from tools.site.calculator import PRECISIONS, read_sheets
from tools.site.scaling import COUNTS, GRADIENTS, SERVER, SETTINGS, STEP, ask

CALCULATOR, SCALING = "book/calculator.html", "book/scaling.html"
EXACT = 1e-9  # relative


def soup(site, name):
    return BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")


# The calculator: the same seconds in both languages.

LINKS = ("pinned", "pageable", "peer", "staged", "device")
ROWS = ("rows", "columns")
NAMES = {
    "matmul": ("batch", "m", "n", "k"),
    "pointwise": ROWS,
    "reduction": ROWS,
    "softmax": ROWS,
    "convolution": ("images", "channels", "filters", "side", "kernel"),
    "copy": ROWS,
}
LARGE = 2**53 - 1
SIZES = {  # of tensors that PyTorch can describe, and of some that it cannot
    "matmul": [
        *[(1, 1, 1, 1), (1, 4096, 4096, 4096), (1, 1000, 1001, 1002), (3, 7, 5, 129)],
        *[(64, 128, 64, 300), (1, 1, 10**6, 10**4), (1, 257, 129, 513), (1, 2**28, 2**28, 2**28)],
        (LARGE, LARGE, LARGE, LARGE),
    ],
    "pointwise": [(1, 1), (1, 1000), (4096, 4096), (3, 5), (2**28, 2**28), (LARGE, LARGE)],
    "reduction": [(1, 1), (4096, 4096), (7, 10**6), (10**6, 7), (2**28, 2**28), (LARGE, 2)],
    "softmax": [
        (1, 1),
        (8192, 8192),
        (64, 12288),
        (64, 12289),
        (3, 30000),
        (2**28, 2**28),
        (LARGE, LARGE),
    ],
    "convolution": [
        *[(1, 1, 1, 1, 1), (64, 64, 128, 56, 3), (256, 3, 6, 32, 5), (256, 1, 6, 28, 5)],
        *[(1, 512, 512, 7, 7), (8, 64, 32, 1, 1)],
        *[(2**20, 2**10, 2**10, 2**10, 3), (LARGE, LARGE, LARGE, LARGE, 3)],
    ],
    "copy": [(1, 1), (16384, 16384), (2**28, 2**28), (LARGE, LARGE)],
}
WORKS = [  # the second size in every precision, each other one in one
    (operation, dict(zip(NAMES[operation], sizes, strict=True)), precision)
    for operation, all_sizes in SIZES.items()
    for place, sizes in enumerate(all_sizes)
    for precision in (PRECISIONS if place == 1 else [PRECISIONS[place % len(PRECISIONS)]])
]
OPERATORS = {
    "matmul": torch.ops.aten.bmm.default,
    "pointwise": torch.ops.aten.add.Tensor,
    "reduction": torch.ops.aten.sum.dim_IntList,
    "softmax": torch.ops.aten._softmax.default,
    "convolution": torch.ops.aten.convolution.default,
    "copy": torch.ops.aten.clone.default,
}
ASK = """([works, links]) => {
  const { host, cards } = JSON.parse(document.getElementById("sheets").textContent);
  return works.map(([operation, sizes, precision]) => {
    const work = formulas.costs[operation](sizes, precision);
    return [work, cards.map(sheet => [sheet.name, [
      ...formulas.bounds(work, sheet),
      formulas.kernelSeconds(work, sheet),
    ], links.map(link => formulas.predict(work, sheet, host, link))])];
  });
}"""


def arguments(operation, sizes, precision):
    """What the operator is given: tensors that have no data."""
    dtype = torch.float32 if precision == "tf32" else getattr(torch, precision)
    empty = functools.partial(torch.empty, dtype=dtype, device="meta")
    if operation == "matmul":
        batch, m, n, k = sizes.values()
        return empty(batch, m, k), empty(batch, k, n)
    if operation == "convolution":
        images, channels, filters, side, kernel = sizes.values()
        x, weight = empty(images, channels, side, side), empty(filters, channels, kernel, kernel)
        return x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    x = empty(*sizes.values())
    more = {"pointwise": (x.clone(),), "reduction": ([1],), "softmax": (1, False)}
    return x, *more.get(operation, ())


@contextmanager
def products_in(precision):
    """Let PyTorch do float32 products in tf32, if that is the precision, or else as they are."""
    backends = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = [backend.fp32_precision for backend in backends]
    for backend in backends:
        backend.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    yield
    for backend, was in zip(backends, before, strict=True):
        backend.fp32_precision = was


def fits(sizes):
    """Whether PyTorch can describe the tensors of these sizes: below 2**63 bytes."""
    return max(sizes.values()) < LARGE


def near(one, other):
    return math.isclose(one, other, rel_tol=EXACT)


def wrong_seconds(costs, cards):
    """What the page computes otherwise than `cudasim` for work of these costs, on each card."""
    work = {name: costs[name] for name in Work._fields}
    work = Work(**work | {"shape": work["shape"] and tuple(work["shape"])})
    host = host_sheet()
    for card, seconds, by_link in cards:
        sheet = find_sheet(card)
        needs, kernel = formulas.bounds(work, sheet), formulas.kernel_seconds(work, sheet)
        if not all(map(near, seconds, (*needs, kernel))):
            yield card, "kernel"
        launch = host.operation + sheet.launch * work.kernels
        whole = 0 if work.kind == "copy" else max(kernel, launch)
        for link, shown in zip(LINKS, by_link, strict=True):
            moving = sum(formulas.copy_seconds(size, sheet, link) for size in costs["operands"])
            if not (near(shown["moving"], moving) and near(shown["computing"], whole)):
                yield card, link
            limit = limit_of(moving, whole, kernel, launch, needs)
            if shown["limit"] != limit and moving != whole:
                yield card, link, shown["limit"]


def limit_of(moving, whole, kernel, launch, needs):
    """What holds the work back, told from its seconds alone."""
    if moving > whole:
        return "link"
    if launch >= kernel or kernel >= 2 * max(needs):
        return "launch"
    return "compute" if needs[0] > needs[1] else "memory"


def test_the_calculator_computes_what_cudasim_does_and_books(browser, site):
    with opened(browser, site, CALCULATOR) as (page, _):
        answers = page.evaluate(ASK, [WORKS, LINKS])
    assert [card for card, *_ in answers[0][1]] == sheet_names()
    assert [fault for answer in answers for fault in wrong_seconds(*answer)] == []
    limits = {one["limit"] for _, cards in answers for *_, shown in cards for one in shown}
    assert limits == {"launch", "memory", "compute", "link"}
    described = [pair for pair in zip(WORKS, answers, strict=True) if fits(pair[0][1])]
    assert len(described) >= 40
    for (operation, sizes, precision), (found, _) in described:
        args, func = arguments(operation, sizes, precision), OPERATORS[operation]
        with products_in(precision):
            work = work_of(func, args, {}, func(*args))
        for name in ("flops", "bytes"):
            assert math.isclose(found[name], getattr(work, name), rel_tol=EXACT), operation
        assert found["kind"] == work.kind and found["kernels"] == work.kernels
        assert found["shape"] == (work.shape and [*work.shape])
        if operation != "copy":  # it computes nothing, in whatever precision
            assert found["precision"] == work.precision
        tensors = [arg.nbytes for arg in args if isinstance(arg, torch.Tensor)]
        assert found["operands"] == pytest.approx(tensors, rel=EXACT)


def test_without_scripts_the_calculator_has_a_table_of_the_cards(browser, site):
    with opened(browser, site, CALCULATOR, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        sentence = page.locator("main noscript > p")
        assert sentence.is_visible() and "needs JavaScript" in sentence.inner_text()
        rows = page.locator(".status tbody tr").all()
        product = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))
        for row, card in zip(rows, sheet_names(), strict=True):
            sheet, cells = find_sheet(card), row.locator("td").all_inner_texts()
            kernel = formulas.kernel_seconds(product, sheet)
            copy = formulas.copy_seconds(2**30, sheet, "pinned")
            shown = [float(cell) / 1000 for cell in cells[-3:-1]]
            assert row.is_visible() and shown == pytest.approx([kernel, copy], rel=0.01)
            assert (cells[0], cells[-1]) == (card, sheet.provenance["words"])
        assert faults == []


# How far it scales: the same seconds in both languages.

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
ASK_SCALING = """([trainings, clusters]) => {
  const links = JSON.parse(document.getElementById("links").textContent);
  const one = (where, id) => links[where].find((link) => link.id === id);
  return trainings.map(([step, gradients, bucket]) =>
    clusters.map(([gpus, server, inside, between, cards]) => {
      const joined = { inside: one("inside", inside), between: one("between", between) };
      const cluster = { gpus, server, cards, ...joined };
      return scalingModel.stepOf({ step, gradients, bucket }, cluster);
    }));
}"""


def test_the_scaling_page_computes_what_cudasim_does(browser, site):
    with opened(browser, site, SCALING) as (page, _):
        answers = page.evaluate(ASK_SCALING, [TRAININGS, CLUSTERS])
    wrong = set()
    for training, of_training in zip(TRAININGS, answers, strict=True):
        for case, shown in zip(CLUSTERS, of_training, strict=True):
            gpus, server, inside, between, cards = case
            joined = links("inside")[inside], links("between")[between]
            expected = step_of(Training(*training), Cluster(gpus, server, *joined, cards))
            for name, value in expected._asdict().items():
                # What is not hidden is the small difference of two large numbers.
                near = EXACT * (expected.step if name == "exposed" else 0)
                if not math.isclose(shown[name], value, rel_tol=EXACT, abs_tol=near):
                    wrong.add(name)
    assert len(TRAININGS) * len(CLUSTERS) >= 1000 and wrong == set()


def test_the_table_and_the_plot_say_what_the_model_does(site):
    page = soup(site, SCALING)
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
    tables = soup(site, SCALING).select(".status")[1].select("table")
    rows = [row for table in tables for row in table.select("tbody tr")]
    assert len(rows) == len(read())
    ordered = sorted(read(), key=lambda figure: figure["kind"] == "all_reduce")
    for row, figure in zip(rows, ordered, strict=True):
        cells = [cell.get_text() for cell in row.select("td")]
        assert row.a["href"] == figure["source"] and figure["hardware"] == cells[1]
        assert f"{row_of(figure).ratio:.2f}" in cells


def test_the_prose_says_how_far_it_is_off(site):
    off = [row_of(figure) for figure in read() if figure["kind"] == "training"]
    ratios = sorted(row.ratio for row in off)
    prose = " ".join(soup(site, SCALING).get_text().split())
    least, most = (round(100 * (ratio - 1)) for ratio in (ratios[0], ratios[-1]))
    assert f"In training the model is always the faster one, by {least} to {most} %." in prose
    limit = next(row for row in off if row.id == "vgg16-horovod-512")
    assert limit.published < 0.7 and 0.9 < limit.ratio < 1.1  # "within a tenth"
    bert = [row.bare / row.published for row in off if row.id.startswith("bert")]
    assert all(0.95 <= ratio <= 1.05 for ratio in bert)  # "within 5 %"


def test_a_broken_file_of_cudasim_fails_the_build_in_one_line(tmp_path):
    source = tmp_path / "cudasim" / "src"
    shutil.copytree(ROOT / "cudasim" / "src", source)
    (source / "cudasim" / "timing" / "cards" / "t4.json").write_text("{}")
    with pytest.raises(BookError, match=r"^cudasim/src: 'python -m cudasim.timing' fails: .*t4"):
        read_sheets(tmp_path)
    (source / "cudasim" / "timing" / "links.json").write_text("{}")
    with pytest.raises(BookError, match=r"^cudasim/src: .* fails: KeyError: 'inside'$"):
        ask(tmp_path)


def test_without_scripts_the_scaling_page_is_of_use(browser, site):
    with opened(browser, site, SCALING, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        assert "needs JavaScript" in page.locator("main noscript > p").inner_text()
        assert page.locator(".scaling-plot > svg").is_visible()
        assert page.locator(".status table").first.is_visible() and faults == []


# Both in the hands of a reader.


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
    assert shown == any(text) == bool(page.locator(":is(.roofline, .curve) > *").count())
    return shown


def go_to(page, fragment):
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    page.wait_for_timeout(50)  # the event comes after


def case_of(operation, card="RTX4090"):
    sizes = [f"{name}-{9 + place}" for place, name in enumerate(NAMES[operation])]
    sizes[-1] = f"{NAMES[operation][-1]}-5"
    return f"card-{card}_link-pageable_operation-{operation}_precision-float16_{'_'.join(sizes)}"


AT_REST = "card-T4_link-pinned_operation-matmul_precision-float32_batch-1_m-4096_n-4096_k-4096"
CASE = (
    "parameters-1000000_batch-8_step-12p5_bucket-25_gpus-16_server-4_cards-1"
    "_inside-pcie4_between-eth10_type-4"
)


def test_the_calculator_says_and_draws_its_numbers(browser, site):
    sheet = find_sheet("T4")
    with opened(browser, site, f"{CALCULATOR}#{AT_REST}") as (page, faults):
        label = "Modelled for a T4, not measured"
        assert said(page).startswith(label) and shift_faults(page) == []
        for words in page.locator(".calculator :is(caption, figcaption)").all_inner_texts():
            assert label in words
        assert sheet.provenance["words"] in page.locator(".calculator .note").inner_text()
        bars, roofline = (
            drawing.get_attribute("aria-label") for drawing in page.locator("figure > svg").all()
        )
        assert label in bars and label in roofline
        for row in ("moving", "computing"):
            assert f"{row} {page.locator(f'[data-row={row}] td').last.inner_text()}" in bars
        assert "Computing: 683 FLOP/byte" in roofline
        assert f"{sheet.bandwidth * sheet.efficiency['memory'] / 1e9:.3g} GB/s" in roofline
        lengths = page.locator(".bars rect").evaluate_all(
            "all => all.map(bar => +bar.getAttribute('width'))"
        )
        copy = 2 * formulas.copy_seconds(4 * 4096**2, sheet, "pinned")
        product = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))
        ratio = copy / formulas.kernel_seconds(product, sheet)
        assert lengths[0] / lengths[1] == pytest.approx(ratio, rel=0.01) and faults == []


def test_the_scaling_page_says_and_draws_its_numbers(browser, site):
    found = step_of(
        Training(0.0125, 4e6), Cluster(16, 4, links("inside")["pcie4"], links("between")["eth10"])
    )
    with opened(browser, site, f"{SCALING}#{CASE}") as (page, faults):
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


@pytest.mark.parametrize(
    ("name", "choice", "value", "field"),
    [(CALCULATOR, "card", "H100", "m"), (SCALING, "between", "ib400", "gpus")],
)
def test_both_work_with_the_network_off_and_from_a_disk(browser, site, name, choice, value, field):
    asked = []
    with opened(browser, site, name, asked) as (page, faults):
        loaded, before = len(asked), said(page)
        page.context.set_offline(True)
        page.select_option(f"[name={choice}]", value)
        assert said(page) != before and shows_a_result(page)
        assert [url for url in asked[loaded:] if "favicon" not in url] == []  # Chromium's own
        assert not any(fault.startswith("script") for fault in faults)
    context = browser.new_context(offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / name).as_uri())
    page.fill(f"[name={field}]", "64")
    assert f"{field}-64_" in page.url and shows_a_result(page)
    assert asked and all(url.startswith("file:") for url in asked)
    context.close()


@pytest.mark.parametrize(
    ("name", "first", "then", "typed"),
    [
        (CALCULATOR, "choice-card", ("link", "operation", "precision", "batch", "m"), "512"),
        (
            SCALING,
            "field-parameters",
            ("type", "batch", "step", "bucket", "gpus", "server", "inside", "between", "cards"),
            "8",
        ),
    ],
)
def test_both_are_used_by_keyboard_alone(browser, site, name, first, then, typed):
    with opened(browser, site, name) as (page, faults):
        page.locator(f"#{first}").focus()
        page.keyboard.type("A100")  # chooses from a list; from digits, only those are left
        for control in then:
            page.keyboard.press("Tab")
            assert page.evaluate("document.activeElement.name") == control
        page.keyboard.press("Control+a")
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        if name == SCALING:
            assert fault(page, "parameters")
            page.fill("[name=parameters]", "100")
        assert f"{then[-1]}-{typed}" in page.url and shows_a_result(page)
        assert (name == SCALING) != said(page).startswith("Modelled for an A100")
        assert faults == []


BAD = {  # a page, its field, what is written there, and what is said of it
    CALCULATOR: [
        ("m", "", "Empty: write a whole number from 1."),
        ("m", "-4", "-4 is too small: the least is 1."),
        ("m", "1.5", '"1.5" is no whole number: write digits only.'),
        ("m", "<b>1</b>", '"<b>1</b>" is no whole number: write digits only.'),
        ("m", "9" * 400, "Too large: beyond 2^53 numbers are not exact."),
        ("m", "9007199254740991", "Does not fit: this needs 256 EiB, and the T4 has 16 GiB."),
        ("m", "1000000", "Does not fit: this needs 30.6 GiB, and the T4 has 16 GiB."),
    ],
    SCALING: [
        ("gpus", "0", "0 is too small: the least is 1."),
        ("gpus", "1025", "1025 is too large: the most is 1,024."),
        ("parameters", "<b>", '"<b>" is no whole number: write digits only.'),
        ("parameters", "9" * 400, f"{'9' * 400} is too large: the most is 1,000,000,000,000."),
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
            assert not shows_a_result(page) and not any(sign.isdigit() for sign in said(page))
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
        page.select_option("[name=operation]", "matmul")
        assert fault(page, "k") and not shows_a_result(page)
        page.select_option("[name=operation]", "convolution")
        page.fill("[name=kernel]", "57")
        assert fault(page, "kernel") == "Larger than the image: 56 is the most."
        assert not shows_a_result(page) and faults == []
    with opened(browser, site, SCALING) as (page, faults):
        page.fill("[name=parameters]", "1000000000000")
        page.fill("[name=bucket]", "1")
        assert fault(page, "bucket") == "Too small: more than 100,000 buckets a step."
        assert faults == []


def test_an_address_of_the_calculator_opens_its_case_or_says_what_is_wrong(browser, site):
    with opened(browser, site, f"{CALCULATOR}#{AT_REST.replace('T4', 'gone')}") as (page, faults):
        for name in ("card", "link", "operation", "precision"):
            old = AT_REST.split(f"{name}-")[1].split("_")[0]
            go_to(page, AT_REST.replace(f"{name}-{old}", f"{name}-gone"))
            assert fault(page, name) == 'There is no "gone": choose one of the list.'
            assert not shows_a_result(page)
            page.select_option(f"[name={name}]", old)
            assert fault(page, name) == "" and shows_a_result(page)
        go_to(page, AT_REST.replace("m-4096", "m--3"))
        assert fault(page, "m") == "-3 is too small: the least is 1." and not shows_a_result(page)
        for operation in NAMES:
            go_to(page, case_of(operation))
            assert said(page).startswith("Modelled for an RTX 4090, not measured")
            page.select_option("[name=precision]", "float32")
            assert page.url.endswith(case_of(operation).replace("float16", "float32"))
        assert faults == []


def test_an_address_of_the_scaling_page_opens_its_case_or_says_what_is_wrong(browser, site):
    with opened(browser, site, SCALING) as (page, faults):
        go_to(page, CASE.replace("eth10", "gone"))
        assert fault(page, "between") == 'There is no "gone": choose one of the list.'
        assert not shows_a_result(page)
        go_to(page, CASE)
        page.select_option("[name=between]", "eth25")
        assert page.url.endswith(CASE.replace("eth10", "eth25")) and faults == []


@pytest.mark.parametrize("name", [CALCULATOR, SCALING])
def test_links_on_the_page_open_their_cases_and_other_fragments_do_no_harm(browser, site, name):
    with opened(browser, site, name) as (page, faults):
        for link in page.locator(".calculator p > a").all():
            link.click()
            page.wait_for_timeout(50)
            assert page.url.endswith(link.get_attribute("href")) and shows_a_result(page)
        for fragment in ("how-to-read-it", "the-model", "%", "gpus", "operation", "_-_", "m-1"):
            go_to(page, fragment)
            assert shows_a_result(page) and faults == []
