"""What the chapter on devices says in numbers is what its own table and formulas give."""

import re
from pathlib import Path

import pytest
from helpers import ROOT, cell, read

CHAPTER = ROOT / "notebooks" / "computing-devices.ipynb"


def text(name, chapter=None):
    return cell(chapter or read(CHAPTER), name).source


@pytest.fixture(scope="module")
def table():
    """The names of the cells that hold the data sheets and reckon with them."""
    names = {}
    for each in ("cards", "by-name", "growth-best"):
        exec(text(each), names)
    return names


def factors(words):
    """The factors that a text names: 7.1 of '7.1 times', 212 of '212-fold'."""
    return {float(number) for number in re.findall(r"([\d.]+)(?: times|-fold)", words)}


def told(table):
    """The factors that the text on the growth from card to card has to name."""
    growth, old = table["growth"], "GeForce 8800 GTX"
    columns = "fp32", "memory", "bandwidth"
    second = [growth("Tesla P100", "B200", column) for column in columns]
    first = [growth(old, "Tesla P100", column) for column in columns]
    by_multiply_adds = 1.5 * first[0]  # without the third of the oldest card's printed figure
    return second, first, by_multiply_adds


def agrees(said, found):
    """True if `said` is `found`, rounded to the digits that are said."""
    digits = len(f"{said:g}".partition(".")[2])
    return abs(said - found) <= 0.5 * 10**-digits + 1e-9


def missing(words, table):
    """The factors of the table that a text does not name, and those it names without reason."""
    second, first, other = told(table)
    found = [*second, *first, other]
    said = factors(words)
    unsaid = [factor for factor in found if not any(agrees(each, factor) for each in said)]
    wrong = [each for each in said if not any(agrees(each, factor) for factor in found)]
    return unsaid + wrong


def test_growth_in_the_text_is_that_of_the_table(table):
    assert missing(text("growth-first-meaning"), table) == []
    second, first, _ = told(table)
    assert min(second) == second[0] and min(first) == first[2]  # what grew least, and when
    assert "FP32 grew least" in text("growth-first-meaning")


@pytest.mark.parametrize(("old", "new"), [("7.1 times", "7.3 times"), ("8.5 times", "nine times")])
def test_another_growth_is_found(old, new, table):
    words = text("growth-first-meaning")
    assert old in words and missing(words.replace(old, new), table) != []


def test_step_of_the_fastest_formats_is_that_of_the_table(table):
    step = table["best"]("B200") / table["best"]("Tesla P100")
    assert factors(text("growth-best-meaning")) == {round(step)}


def test_balance_in_the_text_is_that_of_the_table(table):
    card = table["cards"]["Tesla T4"]
    operations = round(card["fp32"] * 1000 / card["bandwidth"])
    assert f": {operations} operations for each byte" in text("intensity-meaning")


def test_the_oldest_cards_have_the_makers_figures(table):
    cards = table["cards"]
    assert cards["GeForce 8800 GTX"]["fp32"] == 0.5184  # 128 units, 1.35 GHz, 3 operations each
    assert cards["Tesla C1060"]["fp32"] == 0.933


def test_bandwidths_in_the_text_are_those_of_the_cell():
    names = {}
    exec(text("bandwidth"), names)
    rates = names["GB_S"]
    bus, newer = rates["PCI Express 3, 16 lanes"], rates["PCI Express 5, 16 lanes"]
    ratios = rates["memory of a T4"] / bus, rates["memory of an H100"] / newer
    words = text("bandwidth-meaning")
    assert re.findall(r"(\d+)(?: times)? for an? (T4|H100)", words) == [
        (str(round(ratios[0])), "T4"),
        (str(round(ratios[1])), "H100"),
    ]
    assert rates["host memory, 2 x DDR4-3200"] < newer  # "no faster than a recent bus"


# What was said in this book and is not so: issue 12, section 1.
UNTRUE = [
    "bandwidth grew least",
    "may double",
    "far slower than the memory of the devices at its ends",
    "what only it offers",
    "answer them once",
    "are as on a card",
]
TEXTS = [CHAPTER, *sorted((ROOT / "book").glob("*.md"))]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: Path(path).stem)
def test_what_is_not_so_is_not_said(path):
    words = " ".join(path.read_text(encoding="utf-8").lower().split())
    assert [claim for claim in UNTRUE if claim in words] == []
