"""The calculator: the same seconds as `cudasim`, in a browser without a network, by keyboard."""

import functools
import itertools
import json
import math
import shutil
from contextlib import contextmanager

import pytest
import torch
from browsing import opened, violations
from bs4 import BeautifulSoup
from helpers import ROOT
from test_accessibility import STILL, overflows, shift_faults

from cudasim.clock.costs import work_of
from cudasim.timing import formulas
from cudasim.timing.formulas import Work
from cudasim.timing.sheets import FOLDER, find_sheet, host_sheet, sheet_names
from tools.errors import BookError
from tools.site.calculator import PRECISIONS, read_sheets

PAGE = "book/calculator.html"
EXACT = 1e-9  # relative
LINKS = ("pinned", "pageable", "peer", "staged", "device")
AT_REST = "card-T4_link-pinned_operation-matmul_precision-float32_batch-1_m-4096_n-4096_k-4096"

# The same seconds in both languages.

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
WORKS = [
    (operation, dict(zip(NAMES[operation], sizes, strict=True)), precision)
    for operation, all_sizes in SIZES.items()
    for sizes, precision in itertools.product(all_sizes, PRECISIONS)
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
    const on = cards.map(sheet => [sheet.name, {
      bounds: formulas.bounds(work, sheet),
      kernel: formulas.kernelSeconds(work, sheet),
      copies: links.map(link =>
        work.operands.map(size => formulas.copySeconds(size, sheet, link))),
      shown: links.map(link => formulas.predict(work, sheet, host, link)),
    }]);
    return { work, on: Object.fromEntries(on) };
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


@pytest.fixture(scope="module")
def answers(browser, site):
    """What the page computes for each of WORKS."""
    with opened(browser, site, PAGE) as (page, _):
        return page.evaluate(ASK, [WORKS, LINKS])


def differences(found):
    """The names of what the page computes otherwise than `cudasim`, for the same work."""
    wrong = set()

    def compare(name, one, other):
        if not math.isclose(one, other, rel_tol=EXACT):
            wrong.add(name)

    host = host_sheet()
    for each in found:
        work = {name: each["work"][name] for name in Work._fields}
        work = Work(**work | {"shape": work["shape"] and tuple(work["shape"])})
        sizes = each["work"]["operands"]
        for card, on in each["on"].items():
            sheet = find_sheet(card)
            computing, memory = formulas.bounds(work, sheet)
            kernel = formulas.kernel_seconds(work, sheet)
            compare("computing", on["bounds"][0], computing)
            compare("memory", on["bounds"][1], memory)
            compare("kernel", on["kernel"], kernel)
            launch = host.operation + sheet.launch * work.kernels
            for link, copies, shown in zip(LINKS, on["copies"], on["shown"], strict=True):
                expected = [formulas.copy_seconds(size, sheet, link) for size in sizes]
                for one, other in zip(copies, expected, strict=True):
                    compare(link, one, other)
                compare("moving", shown["moving"], sum(expected))
                whole = 0 if work.kind == "copy" else max(kernel, launch)
                compare("shown", shown["computing"], whole)
                limit = limit_of(sum(expected), whole, kernel, launch, (computing, memory))
                if shown["limit"] != limit and sum(expected) != whole:
                    wrong.add("limit")
    return wrong


def limit_of(moving, whole, kernel, launch, needs):
    """What holds the work back, told from its seconds alone."""
    if moving > whole:
        return "link"
    if launch >= kernel or kernel >= 2 * max(needs):
        return "launch"
    return "compute" if needs[0] > needs[1] else "memory"


def test_the_page_computes_what_cudasim_does(answers):
    cases = len(WORKS) * len(LINKS) * len(sheet_names())
    assert len(answers) == len(WORKS) and cases >= 50
    assert [*answers[0]["on"]] == sheet_names()
    assert differences(answers) == set()
    limits = {
        shown["limit"] for each in answers for on in each["on"].values() for shown in on["shown"]
    }
    assert limits == {"launch", "memory", "compute", "link"}


def test_an_operation_costs_on_the_page_what_cudasim_books(answers):
    compared = 0
    for (operation, sizes, precision), answer in zip(WORKS, answers, strict=True):
        if not fits(sizes):
            continue
        args, func = arguments(operation, sizes, precision), OPERATORS[operation]
        with products_in(precision):
            work = work_of(func, args, {}, func(*args))
        found = answer["work"]
        for name in ("flops", "bytes"):
            assert math.isclose(found[name], getattr(work, name), rel_tol=EXACT), operation
        assert found["kind"] == work.kind and found["kernels"] == work.kernels
        assert found["shape"] == (work.shape and [*work.shape])
        if operation != "copy":  # it computes nothing, in whatever precision
            assert found["precision"] == work.precision
        tensors = [each.nbytes for each in args if isinstance(each, torch.Tensor)]
        assert found["operands"] == pytest.approx(tensors, rel=EXACT)
        compared += 1
    assert compared >= 50


CHANGES = [  # a formula of the page, what stands in its place, and what becomes wrong
    ("(2 * size)", "(3 * size)", {"device", "moving", "limit"}),
    ("sheet.peer.latency +", "", {"peer", "staged", "moving", "limit"}),
    ("const UNALIGNED = 0.6", "const UNALIGNED = 0.61", {"computing", "kernel", "shown"}),
    ("[64, 64, 0.6]", "[64, 64, 0.7]", {"computing", "kernel", "shown"}),
    ("sheet.floor * work.kernels + Math", "Math", {"kernel", "shown", "limit"}),
    ("host.operation +", "2 * host.operation +", {"shown"}),
    ("sheet.efficiency.memory)];", "1)];", {"memory", "kernel"}),
]


def test_a_formula_that_differs_on_the_page_is_noticed(browser, site):
    script = (site / "_static" / "formulas.js").read_text(encoding="utf-8")
    with opened(browser, site, PAGE) as (page, _):
        for formula, instead, wrong in CHANGES:
            assert script.count(formula) == 1
            changed = script.replace(formula, instead)
            ask = f"given => {{ {changed} return ({ASK})(given); }}"
            assert wrong <= differences(page.evaluate(ask, [WORKS[::7], LINKS])), formula


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("STEP", 512, "computing"),
        ("UNALIGNED", 0.7, "computing"),
        ("TILES", ((8, 64, 1),), "kernel"),
    ],
)
def test_a_formula_that_differs_in_cudasim_is_noticed(answers, monkeypatch, name, value, wrong):
    monkeypatch.setattr(formulas, name, value)
    formulas.kernel_seconds.cache_clear()
    try:
        assert wrong in differences(answers[::7])
    finally:
        formulas.kernel_seconds.cache_clear()


# What the build embeds.


def test_the_page_holds_the_card_files_as_they_are(site):
    page = BeautifulSoup((site / PAGE).read_text(encoding="utf-8"), "html.parser")
    embedded = json.loads(page.select_one("#sheets").string)
    files = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    host = files.pop("host")
    assert {key: embedded["host"][key] for key in host} == host | {"sources": {}}
    by_name = {card["name"]: card for card in embedded["cards"]}
    assert by_name.keys() == {card["name"] for card in files.values()}
    for card in files.values():
        found = by_name[card["name"]]
        assert {key: found[key] for key in card} == card | {"sources": {}}
        assert found["validation"] == card["provenance"]["words"]


def test_a_broken_sheet_fails_the_build_in_one_line(tmp_path):
    source = tmp_path / "cudasim" / "src"
    shutil.copytree(ROOT / "cudasim" / "src", source)
    (source / "cudasim" / "timing" / "cards" / "t4.json").write_text("{}")
    with pytest.raises(BookError, match=r"^cudasim/src: 'python -m cudasim.timing' fails: .*t4"):
        read_sheets(tmp_path)


def test_without_scripts_the_page_is_of_use(browser, site):
    with opened(browser, site, PAGE, java_script_enabled=False) as (page, faults):
        assert not page.locator(".calculator form").is_visible()
        sentence = page.locator("main noscript > p")
        assert sentence.is_visible() and "needs JavaScript" in sentence.inner_text()
        rows = page.locator(".status tbody tr")
        assert rows.count() == len(sheet_names())
        for row, card in zip(rows.all(), read_sheets(ROOT)["cards"], strict=True):
            cells = row.locator("td").all_inner_texts()
            assert cells[0] == card["name"] and row.is_visible()
            sheet = find_sheet(card["name"])
            assert float(cells[-2]) == pytest.approx(
                formulas.copy_seconds(2**30, sheet, "pinned") * 1000, rel=0.01
            )
            product = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))
            seconds = formulas.kernel_seconds(product, sheet)
            assert float(cells[-3]) == pytest.approx(seconds * 1000, rel=0.01)
            assert cells[-1] == card["provenance"]["words"]
        assert faults == []


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
    assert shown == any(text) == bool(page.locator(".roofline > *").count())
    return shown


def address(page):
    return page.evaluate("location.href")


def test_it_works_with_the_network_off(browser, site):
    asked = []
    with opened(browser, site, PAGE, asked) as (page, faults):
        loaded = len(asked)
        page.context.set_offline(True)
        before = said(page)
        page.select_option("[name=card]", "H100")
        assert said(page) != before and said(page).startswith("Modelled for an H100, not measured")
        assert shows_a_result(page)
        assert [url for url in asked[loaded:] if "favicon" not in url] == []  # Chromium's own
        assert not any(fault.startswith("script") for fault in faults)


def test_it_works_from_a_disk(browser, site):
    context = browser.new_context(offline=True)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / PAGE).as_uri())
    page.fill("[name=m]", "64")
    assert "m-64_" in address(page) and shows_a_result(page)
    assert asked and all(url.startswith("file:") for url in asked)
    context.close()


def test_every_number_says_what_it_is(browser, site):
    with opened(browser, site, f"{PAGE}#{AT_REST.replace('T4', 'V100')}") as (page, _):
        label = "Modelled for a V100, not measured"
        assert said(page).startswith(label)
        for words in page.locator(".calculator :is(caption, figcaption)").all_inner_texts():
            assert label in words
        for drawing in page.locator("figure > svg").all():
            assert label in drawing.get_attribute("aria-label")
        words = find_sheet("V100").provenance["words"]
        assert words in page.locator(".calculator .note").inner_text()


def test_the_drawings_say_their_numbers(browser, site):
    sheet = find_sheet("T4")
    with opened(browser, site, f"{PAGE}#{AT_REST}") as (page, _):
        bars, roofline = (
            each.get_attribute("aria-label") for each in page.locator("figure > svg").all()
        )
        moving = page.locator("[data-row=moving] td").last.inner_text()
        computing = page.locator("[data-row=computing] td").last.inner_text()
        assert f"moving {moving}" in bars and f"computing {computing}" in bars
        assert "ridge" in roofline and "Computing: 683 FLOP/byte" in roofline
        assert f"{sheet.bandwidth * sheet.efficiency['memory'] / 1e9:.3g} GB/s" in roofline
        lengths = page.locator(".bars rect").evaluate_all(
            "all => all.map(each => +each.getAttribute('width'))"
        )
        copy = 2 * formulas.copy_seconds(4 * 4096**2, sheet, "pinned")
        product = Work("matmul", 2.0 * 4096**3, 12.0 * 4096**2, shape=(1, 4096, 4096, 4096))
        ratio = copy / formulas.kernel_seconds(product, sheet)
        assert lengths[0] / lengths[1] == pytest.approx(ratio, rel=0.01)
        for axis in ("Arithmetic intensity, FLOP/byte", "Speed, FLOP/s", "ridge"):
            assert axis in " ".join(page.locator(".roofline").text_content().split())


def test_it_is_used_by_keyboard_alone(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        focused = "document.activeElement.name"
        page.locator("#choice-card").focus()
        page.keyboard.type("A100")
        for name in ("link", "operation", "precision", "batch", "m"):
            page.keyboard.press("Tab")
            assert page.evaluate(focused) == name
        page.keyboard.press("Control+a")
        page.keyboard.type("512")
        page.keyboard.press("Enter")
        assert said(page).startswith("Modelled for an A100")
        assert "card-A100" in address(page) and "_m-512_" in address(page) and faults == []
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "rows" and shows_a_result(page)


BAD_SIZES = {
    "": "Empty: write a whole number from 1.",
    "0": "0 is too small: the least is 1.",
    "-4": "-4 is too small: the least is 1.",
    "abc": '"abc" is no whole number: write digits only.',
    "1.5": '"1.5" is no whole number: write digits only.',
    "4,096": '"4,096" is no whole number: write digits only.',
    "NaN": '"NaN" is no whole number: write digits only.',
    "<b>1</b>": '"<b>1</b>" is no whole number: write digits only.',
    "9007199254740992": "Too large: beyond 2^53 numbers are not exact.",
    "9" * 400: "Too large: beyond 2^53 numbers are not exact.",
    "9007199254740991": "Does not fit: this needs 256 EiB, and the T4 has 16 GiB.",
    "1000000": "Does not fit: this needs 30.6 GiB, and the T4 has 16 GiB.",
}


def test_a_bad_size_gets_one_message_and_no_result(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        case = address(page)
        for text, message in BAD_SIZES.items():
            page.fill("[name=m]", text)
            assert fault(page, "m") == message
            assert [fault(page, name) for name in ("batch", "n", "k", "card")] == [""] * 4
            assert not shows_a_result(page) and not any(sign.isdigit() for sign in said(page))
            assert address(page) == case
            page.fill("[name=m]", "64")
            assert fault(page, "m") == "" and shows_a_result(page)
            page.fill("[name=m]", "4096")
            case = address(page)
        page.fill("[name=m]", "0")
        page.add_style_tag(content=STILL)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) + overflows(page) == []
        assert faults == []


def test_a_kernel_larger_than_its_image_is_refused(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.select_option("[name=operation]", "convolution")
        assert shows_a_result(page)
        page.fill("[name=kernel]", "57")
        assert fault(page, "kernel") == "Larger than the image: 56 is the most."
        assert not shows_a_result(page)


def test_a_bad_size_that_is_hidden_holds_nothing_back(browser, site):
    with opened(browser, site, PAGE) as (page, _):
        page.fill("[name=k]", "none")
        page.select_option("[name=operation]", "softmax")
        assert shows_a_result(page)
        page.select_option("[name=operation]", "matmul")
        assert fault(page, "k") and not shows_a_result(page)


def go_to(page, fragment):
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    page.wait_for_timeout(50)  # the event comes after


def case_of(operation):
    sizes = [f"{name}-{9 + place}" for place, name in enumerate(NAMES[operation])]
    sizes[-1] = f"{NAMES[operation][-1]}-5"
    return f"card-RTX4090_link-pageable_operation-{operation}_precision-float16_{'_'.join(sizes)}"


def test_an_address_opens_its_case(browser, site):
    with opened(browser, site, f"{PAGE}#{case_of('convolution')}") as (page, faults):
        assert shift_faults(page) == []
        for operation in ("convolution", *NAMES):
            go_to(page, case_of(operation))
            assert said(page).startswith("Modelled for an RTX 4090, not measured")
            page.select_option("[name=precision]", "float32")
            assert address(page).endswith(case_of(operation).replace("float16", "float32"))
        assert faults == []


def test_a_link_on_the_page_opens_its_case(browser, site):
    with opened(browser, site, PAGE) as (page, faults):
        for link in page.locator(".calculator p > a").all():
            link.click()
            assert address(page).endswith(link.get_attribute("href"))
            assert shows_a_result(page)
        assert said(page).endswith("After it comes the card's memory.")
        go_to(page, "how-to-read-it")
        assert shows_a_result(page) and faults == []


def test_an_address_that_asks_for_what_is_not_there_gets_a_message(browser, site):
    with opened(browser, site, f"{PAGE}#{AT_REST.replace('T4', 'gone')}") as (page, faults):
        for name in ("card", "link", "operation", "precision"):
            old = AT_REST.split(f"{name}-")[1].split("_")[0]
            for bad in ("gone", ""):
                go_to(page, AT_REST.replace(f"{name}-{old}", f"{name}-{bad}"))
                assert fault(page, name) == f'There is no "{bad}": choose one of the list.'
                assert not shows_a_result(page)
            page.select_option(f"[name={name}]", old)
            assert fault(page, name) == "" and shows_a_result(page)
        assert faults == []


def test_an_address_with_a_bad_size_gets_the_message_of_the_field(browser, site):
    with opened(browser, site, f"{PAGE}#{AT_REST.replace('m-4096', 'm--3')}") as (page, _):
        assert fault(page, "m") == "-3 is too small: the least is 1."
        assert not shows_a_result(page)


def test_other_fragments_do_no_harm(browser, site):
    with opened(browser, site, f"{PAGE}#the-cards") as (page, faults):
        for fragment in ("how-to-read-it", "%", "operation", "_-_", "m-1"):
            go_to(page, fragment)
            assert said(page).startswith("Modelled for a T4") and shows_a_result(page)
        assert faults == []
