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


@pytest.mark.parametrize("path", RECORDED or [NONE], ids=lambda path: path and path.stem)
def test_cudasim_answers_as_a_real_gpu_does(path, simulated):
    answers, listed = read_answers(path), read_differences()
    assert "Simulated" not in answers["card"] and answers["name"] == path.stem
    given = simulated(answers["gpus"], nearest_card(answers, cudasim.CARDS))
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


def differs(programs, known):
    programs["mixing.adding"]["answer"] = ["no error", "no error"]


def changes(programs, known):
    differs(programs, known)
    known["mixing.adding"] = replace(known["mixing.adding"], code="changed")


def vanishes(programs, known):
    del programs["mixing.adding"]


@pytest.mark.parametrize(
    ("change", "waits", "without", "elsewhere", "listed"),
    [  # what is wrong with a list that has no differences, one of another card, this one
        (lambda *_: None, None, "", "", "differs no longer, take it out of differences.toml"),
        (differs, None, "found at least two devices", "found at least two devices", ""),
        (changes, "changed since it was asked", "", "", ""),
        (vanishes, "never asked", "", "", ""),
    ],
)
def test_differences_are_listed_with_reasons_as_long_as_they_differ(
    kept, change, waits, without, elsewhere, listed
):
    known = {name: programs()[name] for name in SOME}
    said = {name: {"code": known[name].code, "answer": kept[name]} for name in SOME[:3]}
    change(said, known)
    found = compare({"gpus": 1, "programs": said}, known, kept)
    assert found.waiting.pop("two_gpus.moving") == "needs 2 GPUs"
    assert found.waiting.get("mixing.adding") == waits
    assert set(SOME[:3]) - {"mixing.adding"} <= set(found.agree)
    for listing, words in (({}, without), (ELSEWHERE, elsewhere), (LISTED, listed)):
        wrong = [*unlisted("h100", found, listing), *outdated("h100", found, listing)]
        assert len(wrong) == bool(words) and words in "".join(wrong)


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
    "programs": {},
}
KIND = "['a.b']\nkind = "


@pytest.mark.parametrize(
    ("read", "text", "told"),
    [
        (read_answers, '{"card": "NVIDIA H100", "pro', "not what the recorder writes; record it"),
        (read_answers, "[]", "not what the recorder writes"),
        (read_answers, json.dumps(FACTS | {"programs": {"a.b": {"code": "0"}}}), "not what the"),
        (read_differences, "[", "no TOML"),
        (read_differences, f"{KIND}'simulation'", "a.b: say kind and reason"),
        (read_differences, f"{KIND}'luck'\nreason = 'r'", "a.b: kind is one of torch version, s"),
        (read_differences, f"{KIND}'hardware'\nreason = ' '", "a.b: say the reason"),
    ],
)
def test_a_broken_file_gets_one_line(tmp_path, read, text, told):
    path = tmp_path / "h100.json"
    path.write_text(json.dumps(FACTS))
    assert read_answers(path) == FACTS
    path.write_text(text)
    with pytest.raises(BadFile) as error:
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
    assert nearest_card(answers, cudasim.CARDS) == nearest
