"""The workloads that check the model, at sizes that the CPU computes in an instant."""

import pytest
import torch

import cudasim
from calibration import workloads
from calibration.card_file import write
from calibration.comparing import compare, rows, table
from calibration.workloads import PAIRS, WORKLOADS, select

PRECISIONS = ("float64", "float32", "tf32", "float16", "bfloat16")


def test_there_are_enough_of_each_kind_and_precision_with_names_of_their_own():
    assert select(PRECISIONS) == list(WORKLOADS.values())
    assert {each.precision for each in select(("float32",))} == {"float32"}
    assert len(select(("float64", "float32", "float16"))) >= 40
    assert len({each.group for each in WORKLOADS.values()}) == 12
    assert all(
        faster != slower and {faster, slower} <= {*WORKLOADS}
        for faster, slower in PAIRS
    )
    with pytest.raises(
        ValueError, match="two workloads are called 'product of 256 x 256'"
    ):
        workloads._add("products", "product of 256 x 256", None, 1, 1)


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_runs_at_its_quick_size(name):
    workload = WORKLOADS[name]
    with cudasim.simulate(gpus=1):
        work = workload.prepare(torch.device("cuda", 0), workload.quick)
        first, second = work(), work()
    assert type(first) is type(second)
    assert first is not None


def test_the_model_is_compared_with_the_card(tmp_path):
    faster, slower = PAIRS[0]  # the slower is the CPU's
    measured = {
        faster: 1e-3,
        slower: 2e-3,
        "product of 4096 x 4096": 4e-3,
        "product of 32 x 32": 1,
    }
    modelled = {
        faster: 2e-3,
        slower: 1e-3,
        "product of 4096 x 4096": 5e-3,
        "product of 32 x 32": 1,
    }
    about = compare(modelled, measured)
    ratios = {row["name"]: row["ratio"] for row in about["rows"]}
    assert ratios[faster] == 2 and ratios[slower] == 0.5
    assert [row["name"] for row in about["rows"] if not row["counted"]] == [slower]
    figures = {
        "workloads": 3,
        "median_error": 0.25,
        "near": 2 / 3,
        "pairs": 1,
        "pairs_right": 0,
    }
    assert about["figures"] == figures
    text = table(about)
    assert f"in another order than on the card: {faster}; {slower}" in text
    assert (
        "median error 25%, 67% within a factor of 1.5, 0 of 1 pairs"
        in text.splitlines()[-1]
    )
    assert "  2 ms      1 ms   2.00" in text
    write(tmp_path / "t4.json", about)
    assert rows(tmp_path / "t4.json") == about["rows"]
    assert [path.name for path in tmp_path.iterdir()] == ["t4.json"]
