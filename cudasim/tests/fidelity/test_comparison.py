"""What real GPUs answered, compared with cudasim; and the comparison itself, on a stand-in."""

import json
from dataclasses import replace

import pytest

import cudasim
from fidelity.comparing import (
    BadFile,
    compare,
    nearest_card,
    outdated,
    read_answers,
    read_differences,
    unlisted,
)
from fidelity.index import programs
from fidelity.recording import ANSWERS

RECORDED = sorted(ANSWERS.glob("*.json"))
NONE = pytest.param(
    None, marks=pytest.mark.skip(reason="no answers recorded for any card yet: nothing compared")
)
cards = pytest.mark.parametrize("path", RECORDED or [NONE], ids=lambda path: path and path.stem)


def beside(path, simulated):
    """The comparison of one card's answers with those of as many GPUs of the nearest card."""
    answers = read_answers(path)
    given = simulated(answers["gpus"], nearest_card(answers, cudasim.CARDS))
    return compare(answers, programs(), given)


@cards
def test_cudasim_answers_as_a_real_gpu_does(path, simulated):
    wrong = unlisted(path.stem, beside(path, simulated), read_differences())
    assert not wrong, "\n".join(["mend cudasim, or list with a reason:", *wrong])


@cards
def test_listed_differences_differ(path, simulated):
    wrong = outdated(path.stem, beside(path, simulated), read_differences())
    assert not wrong, "\n".join(wrong)


@cards
def test_programs_that_wait_are_reported(path, simulated):
    waiting = beside(path, simulated).waiting
    if waiting:
        told = [
            f"{why}: {list(waiting.values()).count(why)}" for why in sorted({*waiting.values()})
        ]
        pytest.skip(f"{path.stem}: programs wait for a recording ({'; '.join(told)})")


@cards
def test_answers_are_those_of_a_real_gpu(path):
    answers = read_answers(path)
    assert "Simulated" not in answers["card"] and answers["cuda"]
    assert answers["name"] == path.stem


def test_listed_differences_are_of_programs_and_cards_that_exist():
    known, names = programs(), {path.stem for path in RECORDED}
    for name, each in read_differences().items():
        assert name in known and set(each.get("cards", [])) <= names, name


# ---- the comparison itself, on answers of cudasim that stand in for a card's

FACTS = {
    "name": "h100",
    "card": "NVIDIA H100",
    "gpus": 1,
    "capability": [9, 0],
    "memory": 80 * 2**30,
    "torch": "2.11.0",
    "cuda": "12.8",
    "driver": "unknown",
    "date": "2026-11-21",
}
SOME = ["devices.devices_print", "mixing.adding", "moves.copy_home", "two_gpus.moving"]


@pytest.fixture
def stand_in(simulated):
    """(answers of a card with one GPU, programs, what cudasim answers): they agree."""
    known = {name: programs()[name] for name in SOME}
    given = {name: simulated(1, "H100")[name] for name in SOME if known[name].gpus < 2}
    told = {name: {"code": known[name].code, "answer": each} for name, each in given.items()}
    return {"gpus": 1, "programs": told}, known, given


def listing(name="mixing.adding", **more):
    return {name: {"kind": "simulation", "reason": "A reason.", **more}}


def test_what_agrees_agrees_and_two_gpus_are_waited_for(stand_in):
    found = compare(*stand_in)
    assert found.agree == SOME[:3] and found.differ == {}
    assert found.waiting == {"two_gpus.moving": "needs 2 GPUs"}
    assert unlisted("h100", found, {}) == outdated("h100", found, {}) == []


def test_an_altered_answer_is_noticed(stand_in):
    answers, known, given = stand_in
    answers["programs"]["mixing.adding"]["answer"] = ["no error", "no error"]
    found = compare(answers, known, given)
    (line,) = unlisted("h100", found, {})
    assert line.startswith("h100: mixing.adding\n") and '"no error"' in line
    assert "found at least two devices, cuda:0 and cpu!" in line
    assert unlisted("h100", found, listing()) == []
    assert unlisted("h100", found, listing(cards=["t4"])) == [line]
    assert outdated("h100", found, listing()) == []


def test_a_listed_difference_that_is_none_is_noticed(stand_in):
    found = compare(*stand_in)
    (line,) = outdated("h100", found, listing())
    assert line == "h100: mixing.adding: differs no longer, take it out of differences.toml"
    assert outdated("h100", found, listing(cards=["t4"])) == []


def test_a_changed_program_waits(stand_in):
    answers, known, given = stand_in
    known["mixing.adding"] = replace(known["mixing.adding"], code="changed")
    answers["programs"]["mixing.adding"]["answer"] = "of the earlier code"
    found = compare(answers, known, given)
    assert found.waiting["mixing.adding"] == "changed since it was asked"
    assert "mixing.adding" not in {*found.agree, *found.differ}
    assert outdated("h100", found, listing()) == []  # nothing can be said of it


def test_a_new_program_waits(stand_in):
    answers, known, given = stand_in
    del answers["programs"]["mixing.adding"]
    assert compare(answers, known, given).waiting["mixing.adding"] == "never asked"


def test_answers_of_another_version_of_torch_are_compared(stand_in):
    answers, known, given = stand_in
    assert compare({**answers, "torch": "2.11.0+cu128"}, known, given).agree == SOME[:3]


@pytest.mark.parametrize(
    "text",
    [
        '{"card": "NVIDIA H100", "pro',  # half of a file
        "[]",
        '{"programs": 1}',
        '{"card": "NVIDIA H100", "programs": {}}',
        json.dumps({**FACTS, "programs": {"a.b": {"code": "0"}}}),
    ],
)
def test_a_broken_file_of_answers_gets_one_line(tmp_path, text):
    path = tmp_path / "h100.json"
    path.write_text(json.dumps({**FACTS, "programs": {}}))
    assert read_answers(path)["card"] == "NVIDIA H100"
    path.write_text(text)
    with pytest.raises(BadFile) as error:
        read_answers(path)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{path}: not what the recorder writes; record it again with 'python")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[", "no TOML"),
        ("['a.b']\nkind = 'simulation'", "a.b: say kind and reason"),
        ("['a.b']\nkind = 'luck'\nreason = 'r'", "a.b: kind is one of torch version, simulation"),
        ("['a.b']\nkind = 'hardware'\nreason = ' '", "a.b: say the reason"),
        ("['a.b']\nkind = 'hardware'\nreason = 'r'\nmore = 1", "a.b: say kind and reason"),
    ],
)
def test_a_broken_list_of_differences_gets_one_line(tmp_path, text, told):
    path = tmp_path / "differences.toml"
    path.write_text(text)
    with pytest.raises(BadFile) as error:
        read_differences(path)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("card", "capability", "gib", "nearest"),
    [
        ("NVIDIA H100 80GB HBM3", [9, 0], 79, "H100"),
        ("NVIDIA H200", [9, 0], 140, "H200"),
        ("Tesla T4", [7, 5], 15, "T4"),
        ("NVIDIA A100-SXM4-80GB", [8, 0], 80, "A100"),
        ("NVIDIA L4", [8, 9], 22, "RTX 4090"),
        ("NVIDIA B200", [10, 0], 180, "H200"),
    ],
)
def test_the_nearest_card(card, capability, gib, nearest):
    answers = {"card": card, "capability": capability, "memory": gib * 2**30}
    assert nearest_card(answers, cudasim.CARDS) == nearest
