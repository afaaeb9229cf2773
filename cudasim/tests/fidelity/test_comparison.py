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


@pytest.fixture
def known():
    """The programs of which these tests are."""
    every = programs()
    return {name: every[name] for name in SOME}


@pytest.fixture
def recording(known, kept):
    """A recording of one GPU that answered two programs as cudasim does."""
    answers = {}
    for name in (FIRST, ADDING):
        answers[name] = {"code": known[name].code, "answer": kept[name]}
    return make_recording(programs=answers)


def test_answers_that_agree_need_no_reason(recording, known, kept):
    comparison = compare(recording, known, kept)
    assert comparison.agree == [FIRST, ADDING]
    assert comparison.waiting == {FOR_TWO: "needs 2 GPUs"}
    assert problems(recording, comparison, {}) == []

    (problem,) = problems(recording, comparison, REASON)
    assert "differs no longer, take it out of differences.toml" in problem


def test_an_answer_that_differs_needs_a_reason(recording, known, kept):
    recording.programs[ADDING]["answer"] = ["no error", "no error"]
    comparison = compare(recording, known, kept)
    assert comparison.agree == [FIRST]
    assert list(comparison.differ) == [ADDING]
    (problem,) = problems(recording, comparison, {})
    assert "found at least two devices" in problem
    assert problems(recording, comparison, REASON) == []


def test_a_program_that_changed_since_it_ran_waits(recording, known, kept):
    recording.programs[ADDING]["code"] = "before"
    comparison = compare(recording, known, kept)
    assert comparison.agree == [FIRST]
    assert comparison.waiting[ADDING] == "changed since it ran"
    assert problems(recording, comparison, {}) == []
    assert problems(recording, comparison, REASON) == []


def test_a_program_that_never_ran_waits(recording, known, kept):
    del recording.programs[ADDING]
    comparison = compare(recording, known, kept)
    assert comparison.agree == [FIRST]
    assert comparison.waiting[ADDING] == "never run"
    assert problems(recording, comparison, {}) == []
    assert problems(recording, comparison, REASON) == []


def refusal(reader, path, text):
    """Return the one line with which `reader` refuses a file of this text."""
    path.write_text(text)
    with pytest.raises(FidelityError) as error:
        reader(path)
    (line,) = str(error.value).splitlines()
    return line


@pytest.mark.parametrize(
    "text", ['{"card": "NVIDIA H100", "pro', "[]", '{"card": "NVIDIA H100"}']
)
def test_a_broken_recording_gets_one_line(tmp_path, text):
    path = tmp_path / "h100.json"
    assert refusal(read, path, text).startswith(f"{path}: not a recording")


def test_a_broken_list_of_differences_gets_one_line(tmp_path):
    path = tmp_path / "differences.toml"
    assert refusal(read_reasons, path, "[").startswith(f"{path}: no TOML")
    expected = f'{path}: a.b: write "theme.program" = "the reason"'
    assert refusal(read_reasons, path, "'a.b' = 1") == expected
    assert refusal(read_reasons, path, "'a.b' = ' '") == expected


def test_a_recording_is_read_as_it_was_written(tmp_path):
    recording = make_recording()
    recording.programs["a.b"] = {"code": "0", "answer": [1]}
    recording.programs["a.c"] = {"code": "1", "answer": "x"}
    path = recording.write(tmp_path)
    assert read(path) == recording
    text = path.read_text()
    assert '  "a.b": {"code": "0", "answer": [1]},' in text.splitlines()
    assert json.loads(text)["date"] == "2026-11-28"


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
