"""What real GPUs answered, compared with cudasim; and the comparison itself, on a stand-in."""

import json

import pytest

import cudasim
from fidelity import comparing
from fidelity.comparing import (
    compare,
    outdated,
    read_answers,
    read_differences,
    unlisted,
)
from fidelity.index import programs
from fidelity.recording import ANSWERS

RECORDED = sorted(ANSWERS.glob("*.json"))
NONE = pytest.param(
    None,
    marks=pytest.mark.skip(
        reason="no answers recorded for any card yet: nothing compared"
    ),
)


@pytest.mark.parametrize(
    "path", RECORDED or [NONE], ids=lambda path: path and path.stem
)
def test_cudasim_answers_as_a_real_gpu_does(path, simulated):
    answers, listed = read_answers(path), read_differences()
    assert "Simulated" not in answers["card"] and answers["name"] == path.stem
    given = simulated(answers["gpus"], comparing.nearest_card(answers, cudasim.CARDS))
    found = compare(answers, programs(), given)
    wrong = unlisted(path.stem, found, listed)
    assert not wrong, "\n".join(["mend cudasim, or list with a reason:", *wrong])
    assert not outdated(path.stem, found, listed)


def test_listed_differences_are_of_programs_and_cards_that_exist():
    known, names = programs(), {path.stem for path in RECORDED}
    for name, difference in read_differences().items():
        assert name in known and set(difference.get("cards", [])) <= names, name


SOME = ["devices.devices_print", "mixing.adding", "moves.copy_home", "two_gpus.moving"]
LISTED = {"mixing.adding": {"kind": "simulation", "reason": "A reason."}}
ELSEWHERE = {"mixing.adding": LISTED["mixing.adding"] | {"cards": ["t4"]}}
TWO_DEVICES = "found at least two devices"


@pytest.mark.parametrize(
    ("change", "waits", "wrong"),
    [  # what is wrong with a list that has no differences, one of another card, this one
        ({}, None, ["", "", "differs no longer, take it out of differences.toml"]),
        ({"answer": ["no error"] * 2}, None, [TWO_DEVICES, TWO_DEVICES, ""]),
        ({"code": "before"}, "changed since it was asked", ["", "", ""]),
        (None, "never asked", ["", "", ""]),
    ],
)
def test_differences_are_listed_with_reasons_as_long_as_they_differ(
    kept, change, waits, wrong
):
    known = {name: programs()[name] for name in SOME}
    said = {name: {"code": known[name].code, "answer": kept[name]} for name in SOME[:3]}
    if change is None:
        del said["mixing.adding"]
    else:
        said["mixing.adding"] |= change
    found = compare({"gpus": 1, "programs": said}, known, kept)
    assert found.waiting.pop("two_gpus.moving") == "needs 2 GPUs"
    assert found.waiting.get("mixing.adding") == waits
    assert set(SOME[:3]) - {"mixing.adding"} <= set(found.agree)
    for listed, words in zip(({}, ELSEWHERE, LISTED), wrong, strict=True):
        told = [*unlisted("h100", found, listed), *outdated("h100", found, listed)]
        assert len(told) == bool(words) and words in "".join(told)


FACTS = dict.fromkeys(comparing.FACTS, "") | {"programs": {}}
KIND = "['a.b']\nkind = "


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (
            read_answers,
            '{"card": "NVIDIA H100", "pro',
            "not what the recorder writes; record it",
        ),
        (read_answers, "[]", "not what the recorder writes"),
        (
            read_answers,
            json.dumps(FACTS | {"programs": {"a.b": {"code": "0"}}}),
            "not what the",
        ),
        (read_differences, "[", "no TOML"),
        (read_differences, f"{KIND}'simulation'", "a.b: say kind and reason"),
        (
            read_differences,
            f"{KIND}'luck'\nreason = 'r'",
            "a.b: kind is one of torch version, s",
        ),
        (read_differences, f"{KIND}'hardware'\nreason = ' '", "a.b: say the reason"),
    ],
)
def test_a_broken_file_gets_one_line(tmp_path, read, text, told):
    path = tmp_path / "h100.json"
    path.write_text(json.dumps(FACTS))
    assert read_answers(path) == FACTS
    path.write_text(text)
    with pytest.raises(comparing.BadFile) as error:
        read(path)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{path}: {told}")


@pytest.mark.parametrize(
    ("card", "capability", "gib", "nearest"),
    [
        ("NVIDIA H200", [9, 0], 140, "H200"),
        ("Tesla T4", [7, 5], 15, "T4"),
        ("NVIDIA L4", [8, 9], 22, "RTX 4090"),
        ("NVIDIA B200", [10, 0], 180, "H200"),
    ],
)
def test_the_nearest_card(card, capability, gib, nearest):
    answers = {"card": card, "capability": capability, "memory": gib * 2**30}
    assert comparing.nearest_card(answers, cudasim.CARDS) == nearest
