"""What real GPUs answered, compared with cudasim; and the comparison itself."""

import json

import pytest

from fidelity import FidelityError, comparing
from fidelity.comparing import compare, problems, read_reasons
from fidelity.index import programs
from fidelity.recording import ANSWERS, Recording, read

RECORDED = sorted(ANSWERS.glob("*.json"))
SOME = ["memory.requests_are_rounded_up", "mixing.adding", "streams.events_of_two_gpus"]
FIRST, ADDING, FOR_TWO = SOME


@pytest.mark.skipif(not RECORDED, reason="no answers of any card yet: nothing compared")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_cudasim_answers_as_a_real_gpu_does(path):
    recording = read(path)
    assert "Simulated" not in recording.card
    comparison = comparing.compare_with_simulation(recording)
    wrong = problems(recording, comparison, read_reasons())
    assert not wrong, "\n".join(["correct cudasim, or list with a reason:", *wrong])


def test_accepted_differences_are_of_programs_that_exist():
    assert set(read_reasons()) <= set(programs())


def make_recording(**facts):
    """Return a recording of one H100 that has answered nothing."""
    recording = Recording(
        card="NVIDIA H100",
        gpus=1,
        capability=[9, 0],
        torch="2.13.0",
        cuda="13.0",
        driver="580",
        python="3.12.3",
        system="Linux x86_64",
        date="2026-11-28",
        programs={},
    )
    for name, fact in facts.items():
        setattr(recording, name, fact)
    return recording


REASON = {ADDING: "A reason."}
GONE = "differs no longer, take it out of differences.toml"


@pytest.mark.parametrize(
    ("change", "waits", "unlisted", "listed"),
    [  # and what is wrong: without a reason for the difference, and with one
        ({}, None, "", GONE),
        ({"answer": ["no error"] * 2}, None, "found at least two devices", ""),
        ({"code": "before"}, "changed since it ran", "", ""),
        (None, "never run", "", ""),
    ],
)
def test_differences_have_reasons_as_long_as_they_differ(
    kept, change, waits, unlisted, listed
):
    known = {name: programs()[name] for name in SOME}
    recording = make_recording()
    for name in (FIRST, ADDING):
        answer = {"code": known[name].code, "answer": kept[name]}
        recording.programs[name] = answer
    if change is None:
        del recording.programs[ADDING]
    else:
        recording.programs[ADDING] |= change

    comparison = compare(recording, known, kept)
    assert comparison.waiting.pop(FOR_TWO) == "needs 2 GPUs"
    assert comparison.waiting.get(ADDING) == waits
    assert FIRST in comparison.agree
    for reasons, words in (({}, unlisted), (REASON, listed)):
        texts = problems(recording, comparison, reasons)
        assert len(texts) == bool(words)
        assert words in "".join(texts)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read, '{"card": "NVIDIA H100", "pro', "not a recording"),
        (read, "[]", "not a recording"),
        (read, '{"card": "NVIDIA H100"}', "not a recording"),
        (read_reasons, "[", "no TOML"),
        (read_reasons, "'a.b' = 1", 'a.b: write "theme.program" = "the reason"'),
        (read_reasons, "'a.b' = ' '", 'a.b: write "theme.program" = "the reason"'),
    ],
)
def test_a_broken_file_gets_one_line(tmp_path, reader, text, message):
    path = tmp_path / "h100.json"
    path.write_text(text)
    with pytest.raises(FidelityError) as error:
        reader(path)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{path}: {message}")


def test_a_recording_is_read_as_it_was_written(tmp_path):
    answers = {"a.b": {"code": "0", "answer": [1]}, "a.c": {"code": "1", "answer": "x"}}
    recording = make_recording(programs=answers)
    path = recording.write(tmp_path)
    assert read(path) == recording
    assert '  "a.b": {"code": "0", "answer": [1]},' in path.read_text().splitlines()
    assert json.loads(path.read_text())["date"] == "2026-11-28"


@pytest.mark.parametrize(
    ("card", "capability", "nearest"),
    [
        ("NVIDIA H200", [9, 0], "H200"),
        ("Tesla T4", [7, 5], "T4"),
        ("NVIDIA L4", [8, 9], "RTX 4090"),
    ],
)
def test_the_nearest_card(card, capability, nearest):
    recording = make_recording(card=card, capability=capability)
    assert comparing.nearest_card(recording) == nearest


def test_the_command_prints_what_differs(facts, monkeypatch, capsys):
    recording = make_recording()
    comparison = comparing.Comparison(
        agree=[FIRST], differ={ADDING: (1, 2)}, waiting={FOR_TWO: "needs 2 GPUs"}
    )
    monkeypatch.setattr("fidelity.recording.read_all", lambda: [recording])
    monkeypatch.setattr(comparing, "compare_with_simulation", lambda _: comparison)
    with pytest.raises(SystemExit, match=r"mixing\.adding\n  real:      1\n"):
        facts("compare")
    assert capsys.readouterr().out == (
        f"nvidia-h100: 1 agree, 1 differ\nnvidia-h100: {FOR_TWO} waits: needs 2 GPUs\n"
    )
