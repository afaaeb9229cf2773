"""The model against published measurements: the ratios that were seen, and what would move them."""

import json

import pytest
import torch
from programs import PROJECT

from cudasim.timing import sheets
from facts.published import NEAR, PATH, row_of, summary
from facts.resnet import resnet50

MEASUREMENTS = json.loads(PATH.read_text(encoding="utf-8"))
SLOW = ("rn50", "bert", "minilm")  # what the names of rows begin with that take seconds
CHEAP = [entry for entry in MEASUREMENTS if not entry["id"].startswith(SLOW)]
BY_ID = {entry["id"]: entry for entry in MEASUREMENTS}

# Rows that the model misses by more than a factor of 1.5, and why.
MISSES = {
    "conv-v100-fp32-56x56x128-256": "Winograd's method needs fewer products than are counted",
    "trap-4090-l2-scale": "the cache of the second level is not modelled",
    "d2h-a100-pageable-fresh": "memory that the host never touched is not modelled",
    "mm-a100pcie40-fp32-1024": "measured at half the rate of 8192, for no reason the model knows",
    "small-v100-gemm-2560x16x2560": "read from memory at half the rate of a copy",
    "attn-a100-naive-4096": "a variant that normalises its inputs too",
    "rn50-infer-t4-hf-1-reduce-overhead": "one image leaves more of a T4 idle than tiles tell",
    # Half precision, by software of 2021, in large products and on a host of which no more is told.
    "bert-a100-fp16-32x128": "",
    "bert-t4-fp16-32x128": "",
    "bert-v100-fp16-32x128": "",
    "bert-t4-fp16-32x384": "",
    "rn50-infer-v100-fp16-nhwc-1": "",
}


@pytest.fixture(scope="module")
def cheap_rows():
    return [row_of(measurement) for measurement in CHEAP]


def missed(rows):
    """Return the names of rows that are not within a factor of NEAR."""
    return {row.id for row in rows if not 1 / NEAR <= row.ratio <= NEAR}


def ratios(rows, use):
    """Return the ratios of rows by their use: fit, validate."""
    return [row.ratio for row in rows if row.use == use]


def rows_named_by_sheets():
    """Return the names of rows in the sources that sheets and their hosts give."""
    words = []
    for name in sheets.sheet_names():
        sheet = sheets.find_sheet(name)
        host = sheets.host_sheet(sheet)
        sources = [*sheet.sources.values(), *host.sources.values()]
        for source in sources:
            words += source.replace(",", " ").replace(";", " ").split()
    return set(BY_ID).intersection(words)


def test_a_sheet_says_which_rows_it_is_from():
    named = rows_named_by_sheets()
    assert len(named) > 10
    not_fitted = {name for name in named if BY_ID[name]["use"] == "validate"}
    assert not_fitted == {"h2d-t4-pinned"}  # told as what differs


def test_ratios_are_as_seen(cheap_rows):
    cheap_misses = {name for name in MISSES if not name.startswith(SLOW)}
    assert missed(cheap_rows) == cheap_misses

    fit = [row for row in cheap_rows if row.use == "fit"]
    far = {row.id for row in fit if abs(row.ratio - 1) > 0.25}
    assert far <= set(MISSES)
    error, _ = summary(ratios(cheap_rows, "fit"))
    assert error < 0.05
    error, near = summary(ratios(cheap_rows, "validate"))
    assert error < 0.20
    assert near > 0.80


@pytest.mark.full
def test_what_the_host_bounds_takes_about_what_was_measured():
    rows = []
    for measurement in MEASUREMENTS:
        if measurement.get("bound") == "host" and measurement["use"] == "validate":
            rows.append(row_of(measurement))
    assert len(rows) >= 10
    assert sum(row.card == "T4" for row in rows) >= 5
    _, near = summary(ratios(rows, "validate"))
    assert near >= 0.9


def test_resnet50_has_the_parameters_of_torchvision():
    with torch.device("meta"):
        net = resnet50()
    assert sum(weight.numel() for weight in net.parameters()) == 25_557_032


def test_a_step_of_resnet50_takes_about_what_was_measured():
    row = row_of(BY_ID["rn50-train-a100pcie40-amp"])
    assert 0.8 < row.ratio < 1.25


@pytest.mark.full
def test_the_page_tells_how_good_the_model_is():
    rows = [row_of(measurement) for measurement in MEASUREMENTS]
    assert missed(rows) == set(MISSES)

    not_fitted = ratios(rows, "validate")
    error, near = summary(not_fitted)
    figures = f"median error of {error:.0%}, and {near:.0%} lie".replace("%", " %")
    page = PROJECT / "docs" / "modelled-time.md"
    text = page.read_text(encoding="utf-8")
    assert f"{len(not_fitted)} did not" in text
    assert f"with {len(MEASUREMENTS)} published" in text
    assert figures in text
