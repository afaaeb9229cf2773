"""Data sheets and formulas: complete, sourced, and what one gets by hand."""

import dataclasses
import json
from itertools import pairwise

import pytest
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
    with pytest.raises(ValueError) as error:
        find_sheet("K80")
    assert (
        str(error.value) == f"card='K80': no data sheet; there are {', '.join(NAMES)}"
    )


def test_every_figure_has_a_source(sheet):
    figures = {each.name for each in dataclasses.fields(sheet)}
    assert set(sheet.sources) == figures - {"name", "provenance", "sources"}
    assert all(len(source) > 20 for source in sheet.sources.values())
    for key in ("peak", "bandwidth", "processors"):
        assert sheet.sources[key].startswith("https://")
    host = {each.name for each in dataclasses.fields(Host)} - {
        "name",
        "provenance",
        "sources",
    }
    assert set(host_sheet().sources) == host


def test_a_sheet_agrees_with_the_card_and_itself(sheet):
    assert sheet.provenance["validated"] is False
    assert sheet.processors == cudasim.CARDS[sheet.name].processors
    ampere = cudasim.CARDS[sheet.name].capability >= (8, 0)
    assert ("tf32" in sheet.peak) == ampere
    works = [
        product(4096, 4096, 4096, each) for each in ("bfloat16", "float32", "float16")
    ]
    bfloat16, float32, float16 = [kernel_seconds(work, sheet) for work in works]
    assert (bfloat16 < float32) == ampere and float16 < float32  # before it is emulated
    for kind in ("matmul", "convolution", "attention"):
        assert set(sheet.efficiency[kind]) <= set(sheet.peak)
        assert all(0.1 < share < 1.1 for share in sheet.efficiency[kind].values())
    assert 0.7 < sheet.efficiency["memory"] < 0.95
    assert sheet.vector["float32"] <= sheet.peak["float32"]
    pageable = max(sheet.link["pageable_in"], sheet.link["pageable_out"])
    assert (
        pageable
        < min(sheet.link["pinned_in"], sheet.link["pinned_out"])
        < sheet.bandwidth
    )
    assert sheet.peer["staged"] <= sheet.peer["bandwidth"] < sheet.bandwidth


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(
            ({"bandwidth": value}, f"bandwidth is {value!r}, not a")
            for value in (-1.0, "f", True)
        ),
        (
            {"peak": {"float32": float("nan")}},
            "peak.float32 is nan, not a positive figure",
        ),
        ({"peak": {"float16": 1.0}}, "peak.float32 is missing"),
        ({"link": {"latency": 1e-6}}, "link.pinned_in is missing"),
        (
            {"efficiency": SHARES | {"matmul": {"float32": 0}}},
            "efficiency.matmul.float32 is 0",
        ),
        (
            {"efficiency": SHARES | {"matmul": {"float16": 1}}},
            "efficiency.matmul.float32 is mi",
        ),
        ({"peer": 5.0}, "peer is 5.0, not a table"),
        ({"floor": {"a": 1.0}}, "floor is {'a': 1.0}, not a positive figure"),
        ({"speed": 1.0}, "speed is unknown; a sheet has name, peak,"),
        *(({key: None}, f"{key} is missing") for key in ("name", "floor", "peer")),
        (None, "not "),
    ],
)
def test_a_bad_sheet_is_refused_with_file_and_key(tmp_path, change, said):
    path = tmp_path / "card.json"
    good = json.loads((sheets.FOLDER / "t4.json").read_text())
    path.write_text(json.dumps(good))
    assert read_sheet(path).name == "T4"
    changed = good | (change or {})
    kept = {key: value for key, value in changed.items() if value is not None}
    for text in [json.dumps(kept)] if change else ["", "[1]", "{'name': 1}"]:
        path.write_text(text)
        with pytest.raises(ValueError) as error:
            read_sheet(path)
        assert str(error.value).startswith(f"{path}: {said}")


def test_known_times_by_hand():
    t4, host = find_sheet("T4"), host_sheet()
    work = product(4096, 4096, 4096)
    # 16 x 32 tiles of 256 x 128 are 12.8 waves over 40 processors: 13 are paid
    full = 12.8 / 13
    for found, seconds in (
        # 40 MB at 320 GB/s x 0.75, and the floor of 2 us
        (kernel_seconds(Work("pointwise", 0, 40e6), t4), 2e-6 + 40e6 / 240e9),
        (formulas.utilisation((1, 4096, 4096, 4096), 40), full),
        (rate(work, t4), 8.1e12 * 0.54 * full),
        (formulas.bounds(work, t4)[0], 2 * 4096**3 / rate(work, t4)),
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
        assert found == pytest.approx(seconds)
    for kind, way in (("pinnned", "in"), ("pinned", "up"), ("latency", "in")):
        with pytest.raises(
            ValueError, match="there are pinned, pageable, peer, staged, device"
        ):
            copy_seconds(1, t4, kind, way)
    lacked, had = product(999, 999, 999, "tf32"), product(999, 999, 999)
    assert kernel_seconds(lacked, t4) == kernel_seconds(had, t4)
    for precision, slower in (
        ("float16", True),
        ("float32", False),
    ):  # rows that are not aligned
        even, odd = (
            product(4096, 4096, 4096, precision),
            product(4096, 4096, 4095, precision),
        )
        assert (rate(odd, t4) < 0.7 * rate(even, t4)) == slower


def test_more_work_takes_no_less_time_and_no_product_exceeds_the_peak(sheet):
    sizes = [2**power for power in range(3, 15)]
    for precision in sheet.peak:
        times = [kernel_seconds(product(n, n, n, precision), sheet) for n in sizes]
        assert all(small <= large for small, large in pairwise(times))
    for shape in (
        (1, 1, 1, 1),
        (1, 1, 4096, 4096),
        (64, 128, 128, 64),
        (1, 8192, 8192, 8192),
    ):
        assert 0 < formulas.utilisation(shape, sheet.processors) <= 1
    for kind in ("pinned", "pageable", "peer", "staged", "device"):
        times = [copy_seconds(size, sheet, kind) for size in (0, *sizes)]
        assert all(small < large for small, large in pairwise(times))


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
        assert (
            card["peak"] == sheet.peak and card["memory"] == cudasim.CARDS[name].memory
        )
        assert card["seconds"]["copy"] == copy_seconds(2**30, sheet, "pinned")
