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
SHARES = find_sheet("T4").efficiency


@pytest.fixture(params=NAMES)
def sheet(request):
    return find_sheet(request.param)


def product(m, n, k, precision="float32", batch=1, size=4):
    numbers = batch * (m * k + k * n + m * n)
    flops = 2.0 * batch * m * n * k
    return Work("matmul", flops, float(size * numbers), precision, 1, (batch, m, n, k))


def test_every_card_of_cuda_has_a_sheet():
    cards = {card.name for card in cudasim.CARDS.values() if card.type.name == "cuda"}
    assert cards == set(NAMES)
    words = raised(lambda: find_sheet("K80"), ValueError)
    assert words == f"card='K80': no data sheet; there are {', '.join(NAMES)}"


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


NOT_A_NUMBER = float("nan")
ZERO_SHARE = SHARES | {"matmul": {"float32": 0}}
WITHOUT_FLOAT32 = SHARES | {"matmul": {"float16": 1}}
BAD_CHANGES = [
    ({"bandwidth": -1.0}, "bandwidth is -1.0, not a"),
    ({"bandwidth": "f"}, "bandwidth is 'f', not a"),
    ({"bandwidth": True}, "bandwidth is True, not a"),
    ({"peak": {"float32": NOT_A_NUMBER}}, "peak.float32 is nan, not a positive figure"),
    ({"peak": {"float16": 1.0}}, "peak.float32 is missing"),
    ({"link": {"latency": 1e-6}}, "link.pinned_in is missing"),
    ({"efficiency": ZERO_SHARE}, "efficiency.matmul.float32 is 0"),
    ({"efficiency": WITHOUT_FLOAT32}, "efficiency.matmul.float32 is mi"),
    ({"peer": 5.0}, "peer is 5.0, not a table"),
    ({"floor": {"a": 1.0}}, "floor is {'a': 1.0}, not a positive figure"),
    ({"speed": 1.0}, "speed is unknown; a sheet has name, peak,"),
    ({"name": None}, "name is missing"),
    ({"floor": None}, "floor is missing"),
    ({"peer": None}, "peer is missing"),
]


def refusal(path, text):
    path.write_text(text)
    return raised(lambda: read_sheet(path), ValueError)


@pytest.mark.parametrize(("change", "message"), BAD_CHANGES)
def test_a_bad_sheet_is_refused_with_file_and_key(tmp_path, change, message):
    path = tmp_path / "card.json"
    good = json.loads((sheets.FOLDER / "t4.json").read_text())
    path.write_text(json.dumps(good))
    assert read_sheet(path).name == "T4"

    changed = good | change
    kept = {key: value for key, value in changed.items() if value is not None}
    words = refusal(path, json.dumps(kept))
    assert words.startswith(f"{path}: {message}")


@pytest.mark.parametrize("text", ["", "[1]", "{'name': 1}"])
def test_a_sheet_that_is_no_table_is_refused(tmp_path, text):
    path = tmp_path / "card.json"
    assert refusal(path, text).startswith(f"{path}: not ")


def test_known_times_by_hand():
    t4, host = find_sheet("T4"), host_sheet()
    work = product(4096, 4096, 4096)
    # 16 x 32 tiles of 256 x 128 are 12.8 waves over 40 processors: 13 are paid
    full = 12.8 / 13
    peak = 8.1e12 * 0.54 * full
    for result, expected in (
        # 40 MB at 320 GB/s x 0.75, and the floor of 2 us
        (kernel_seconds(Work("pointwise", 0, 40e6), t4), 2e-6 + 40e6 / 240e9),
        (formulas.utilisation((1, 4096, 4096, 4096), 40), full),
        (rate(work, t4), peak),
        (formulas.bounds(work, t4)[0], 2 * 4096**3 / peak),
        # 2 x 1 MB read and written on the card; to and from the host; to a like card
        (copy_seconds(1e6, t4, "device"), 2e-6 + 2e6 / 240e9),
        (copy_seconds(12.4e6, t4, "pinned"), 2e-6 + 1e-3),
        (copy_seconds(13e6, t4, "pinned", "out"), 2e-6 + 1e-3),
        (copy_seconds(5e6, t4, "pageable", "out"), 2e-6 + 1e-3),
        (copy_seconds(6e6, t4, "peer"), 10e-6 + 1e-3),  # through the host
        (copy_seconds(6e6, t4, "staged"), 10e-6 + 1e-3),
        (formulas.host_seconds(Work("pointwise", 1, 10e9), host), 1),
        (formulas.host_seconds(Work("matmul", 70.4e9, 1), host), 1),
    ):
        assert result == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "way"), [("pinnned", "in"), ("pinned", "up"), ("latency", "in")]
)
def test_an_unknown_link_is_refused(kind, way):
    words = raised(lambda: copy_seconds(1, find_sheet("T4"), kind, way), ValueError)
    assert "there are pinned, pageable, peer, staged, device" in words


def test_a_precision_that_a_card_lacks_takes_float32s_time():
    t4 = find_sheet("T4")
    lacked = kernel_seconds(product(999, 999, 999, "tf32"), t4)
    assert lacked == kernel_seconds(product(999, 999, 999), t4)


@pytest.mark.parametrize(
    ("precision", "slower"), [("float16", True), ("float32", False)]
)
def test_rows_that_are_not_aligned_are_slower_in_16_bits(precision, slower):
    t4 = find_sheet("T4")
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
import json, sys
sys.modules["torch"] = None
from cudasim.timing.sheets import sheet_names
from facts.cards import described
print(json.dumps({name: described(name) for name in sheet_names()}))
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
