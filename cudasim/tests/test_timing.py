"""Data sheets and formulas: complete, sourced, and what one gets by hand."""

import dataclasses
import json

import pytest
from calls import raised
from programs import PROJECT, run

import cudasim
from cudasim.timing import formulas, sheets
from cudasim.timing.formulas import Work, copy_seconds, kernel_seconds, rate
from cudasim.timing.sheets import Host, find_sheet, host_sheet, read_sheet, sheet_names

NAMES = sheet_names()


@pytest.fixture(params=NAMES)
def sheet(request):
    return find_sheet(request.param)


@pytest.fixture
def t4():
    return find_sheet("T4")


def product(m, n, k, precision="float32"):
    """Return the work of a product of two matrices whose numbers have four bytes."""
    flops = 2.0 * m * n * k
    numbers = m * k + k * n + m * n
    return Work("matmul", flops, 4.0 * numbers, precision, 1, (1, m, n, k))


def test_every_card_of_cuda_has_a_sheet():
    cards = {card.name for card in cudasim.CARDS.values() if card.type.name == "cuda"}
    assert cards == set(NAMES)
    error = raised(lambda: find_sheet("K80"), ValueError)
    listed = ", ".join(NAMES)
    assert error == f"card='K80': no data sheet; there are {listed}"


def figures_of(record):
    """Return the names of a sheet's fields that hold figures."""
    names = {field.name for field in dataclasses.fields(record)}
    return names - {"name", "provenance", "sources"}


def test_every_figure_has_a_source(sheet):
    assert set(sheet.sources) == figures_of(sheet)
    assert set(host_sheet().sources) == figures_of(Host)
    for source in sheet.sources.values():
        assert len(source) > 20
    for key in ("peak", "bandwidth", "processors"):
        assert sheet.sources[key].startswith("https://")


def test_a_sheet_agrees_with_the_card_and_itself(sheet):
    card = cudasim.CARDS[sheet.name]
    assert sheet.provenance["validated"] is False
    assert sheet.processors == card.processors
    ampere = card.capability >= (8, 0)
    assert ("tf32" in sheet.peak) == ampere

    def seconds(precision):
        return kernel_seconds(product(4096, 4096, 4096, precision), sheet)

    assert (seconds("bfloat16") < seconds("float32")) == ampere  # else emulated
    assert seconds("float16") < seconds("float32")


def test_shares_and_links_of_a_sheet_are_plausible(sheet):
    for kind in ("matmul", "convolution", "attention"):
        shares = sheet.efficiency[kind]
        assert set(shares) <= set(sheet.peak)
        assert 0.1 < min(shares.values())
        assert max(shares.values()) < 1.1
    assert 0.7 < sheet.efficiency["memory"] < 0.95
    assert sheet.vector["float32"] <= sheet.peak["float32"]

    link = sheet.link
    pageable = max(link["pageable_in"], link["pageable_out"])
    pinned = min(link["pinned_in"], link["pinned_out"])
    assert pageable < pinned < sheet.bandwidth
    assert sheet.peer["staged"] <= sheet.peer["bandwidth"] < sheet.bandwidth


def refusal(path, text):
    """Return the error for a sheet of this text, without the file's name that it begins with."""
    path.write_text(text)
    error = raised(lambda: read_sheet(path), ValueError)
    head = f"{path}: "
    assert error.startswith(head)
    return error.removeprefix(head)


@pytest.fixture
def refusal_of(tmp_path):
    """Return a function that changes the sheet of a T4 and returns the error for it."""
    path = tmp_path / "card.json"
    text = (sheets.FOLDER / "t4.json").read_text()
    path.write_text(text)
    assert read_sheet(path).name == "T4"

    def change_and_read(**changes):
        sheet = json.loads(text) | changes
        return refusal(path, json.dumps(sheet))

    return change_and_read


@pytest.mark.parametrize("bandwidth", [-1.0, "f", True])
def test_a_figure_is_a_positive_number(refusal_of, bandwidth):
    error = refusal_of(bandwidth=bandwidth)
    assert error.startswith(f"bandwidth is {bandwidth!r}, not a positive figure")


def test_what_a_table_of_figures_must_hold(refusal_of):
    error = refusal_of(peak={"float32": float("nan")})
    assert error.startswith("peak.float32 is nan, not a positive figure")
    error = refusal_of(peak={"float16": 1.0})
    assert error.startswith("peak.float32 is missing")
    error = refusal_of(link={"latency": 1e-6})
    assert error.startswith("link.pinned_in is missing")
    error = refusal_of(peer=5.0)
    assert error.startswith("peer is 5.0, not a table")
    error = refusal_of(floor={"a": 1.0})
    assert error.startswith("floor is {'a': 1.0}, not a positive figure")


def test_what_the_shares_of_products_must_hold(refusal_of, t4):
    error = refusal_of(efficiency=t4.efficiency | {"matmul": {"float32": 0}})
    assert error.startswith("efficiency.matmul.float32 is 0")
    error = refusal_of(efficiency=t4.efficiency | {"matmul": {"float16": 1}})
    assert error.startswith("efficiency.matmul.float32 is missing")


def test_an_unknown_key_is_refused(refusal_of):
    error = refusal_of(speed=1.0)
    assert error.startswith("speed is unknown; a sheet has name, peak,")


@pytest.mark.parametrize("key", ["name", "floor", "peer"])
def test_a_sheet_without_a_key_is_refused(tmp_path, key):
    sheet = json.loads((sheets.FOLDER / "t4.json").read_text())
    del sheet[key]
    error = refusal(tmp_path / "card.json", json.dumps(sheet))
    assert error.startswith(f"{key} is missing")


@pytest.mark.parametrize("text", ["", "[1]", "{'name': 1}"])
def test_a_sheet_that_is_no_table_is_refused(tmp_path, text):
    assert refusal(tmp_path / "card.json", text).startswith("not ")


# Times by hand.


def test_a_pointwise_kernel_takes_the_time_of_its_bytes(t4):
    work = Work("pointwise", 0, 40e6)
    # 40 MB at 320 GB/s x 0.75, and the floor of 2 us
    assert kernel_seconds(work, t4) == pytest.approx(2e-6 + 40e6 / 240e9)


def test_a_product_takes_the_time_of_its_waves(t4):
    # 16 x 32 tiles of 256 x 128 are 12.8 waves over 40 processors: 13 are paid
    full = 12.8 / 13
    utilisation = formulas.utilisation((1, 4096, 4096, 4096), 40)
    assert utilisation == pytest.approx(full)

    work = product(4096, 4096, 4096)
    peak = 8.1e12 * 0.54 * full
    assert rate(work, t4) == pytest.approx(peak)
    seconds_of_flops, _ = formulas.bounds(work, t4)
    assert seconds_of_flops == pytest.approx(2 * 4096**3 / peak)


@pytest.mark.parametrize(
    ("size", "kind", "way", "seconds"),
    [
        (12.4e6, "pinned", "in", 2e-6 + 1e-3),
        (13e6, "pinned", "out", 2e-6 + 1e-3),
        (5e6, "pageable", "out", 2e-6 + 1e-3),
        # To a like card: each copy goes through the host.
        (6e6, "peer", "in", 10e-6 + 1e-3),
        (6e6, "staged", "in", 10e-6 + 1e-3),
        # On the card: 1 MB read and 1 MB written.
        (1e6, "device", "in", 2e-6 + 2e6 / 240e9),
    ],
)
def test_a_copy_takes_the_time_of_its_link(t4, size, kind, way, seconds):
    assert copy_seconds(size, t4, kind, way) == pytest.approx(seconds)


def test_the_host_takes_the_time_of_its_bytes_or_flops():
    host = host_sheet()
    pointwise = Work("pointwise", 1, 10e9)
    assert formulas.host_seconds(pointwise, host) == pytest.approx(1)
    matmul = Work("matmul", 70.4e9, 1)
    assert formulas.host_seconds(matmul, host) == pytest.approx(1)


@pytest.mark.parametrize(
    ("kind", "way"), [("pinnned", "in"), ("pinned", "up"), ("latency", "in")]
)
def test_an_unknown_link_is_refused(t4, kind, way):
    error = raised(lambda: copy_seconds(1, t4, kind, way), ValueError)
    assert "there are pinned, pageable, peer, staged, device" in error


def test_a_precision_that_a_card_lacks_takes_float32s_time(t4):
    in_float32 = kernel_seconds(product(999, 999, 999), t4)
    in_tf32 = kernel_seconds(product(999, 999, 999, "tf32"), t4)
    assert in_tf32 == in_float32


@pytest.mark.parametrize(
    ("precision", "slower"), [("float16", True), ("float32", False)]
)
def test_rows_that_are_not_aligned_are_slower_in_16_bits(t4, precision, slower):
    even = rate(product(4096, 4096, 4096, precision), t4)
    odd = rate(product(4096, 4096, 4095, precision), t4)
    assert (odd < 0.7 * even) == slower


def test_more_work_takes_no_less_time(sheet):
    sizes = [2**power for power in range(3, 15)]
    for precision in sheet.peak:
        times = [kernel_seconds(product(n, n, n, precision), sheet) for n in sizes]
        assert times == sorted(times)
    for kind in ("pinned", "pageable", "peer", "staged", "device"):
        times = [copy_seconds(size, sheet, kind) for size in (0, *sizes)]
        assert times == sorted(set(times))


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1), (1, 1, 4096, 4096), (64, 128, 128, 64), (1, 8192, 8192, 8192)],
)
def test_no_product_exceeds_the_peak(sheet, shape):
    assert 0 < formulas.utilisation(shape, sheet.processors) <= 1


WITHOUT_TORCH = """
import json
import sys

sys.modules["torch"] = None
from cudasim.timing.sheets import sheet_names
from facts.cards import described

cards = {name: described(name) for name in sheet_names()}
print(json.dumps(cards))
"""


def test_every_sheet_is_described_to_programs_without_torch():
    got = run("-c", WITHOUT_TORCH, cwd=PROJECT)
    assert got.returncode == 0, got.stderr
    cards = json.loads(got.stdout)
    assert [*cards] == NAMES
    for name, card in cards.items():
        sheet = find_sheet(name)
        assert card["peak"] == sheet.peak
        assert card["memory"] == cudasim.CARDS[name].memory
        assert card["seconds"]["copy"] == copy_seconds(2**30, sheet, "pinned")
