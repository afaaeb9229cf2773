"""The tables that the book draws from the answers of real GPUs."""

import json
import shutil

import pytest
from helpers import ROOT, refused

from fidelity import recording
from fidelity.index import programs
from fidelity.recording import ANSWERS
from tools.book.book import Book
from tools.record import cards
from tools.site import fidelity

ANSWERED = ["devices.devices_print", "mixing.adding", "moves.copy_home"]


@pytest.fixture
def suite(tmp_path):
    """A copy of the suite in a root of its own, with no card's answers."""
    ignored = shutil.ignore_patterns("answers", "__pycache__")
    shutil.copytree(ANSWERS.parent, tmp_path / "cudasim" / "fidelity", ignore=ignored)
    differ(tmp_path, "")
    return tmp_path


def tables(root):
    return fidelity.fidelity_tables(Book(root))


def answer(root, name="h100", **changed):
    """Let a card have answered three programs; `changed` are facts about it."""
    said = {each: {"code": programs()[each].code, "answer": 1} for each in ANSWERED}
    facts = {"card": "NVIDIA H100", "gpus": 1, "torch": "2.11.0", "cuda": "12.8"}
    facts |= {"date": "2026-11-21", "programs": said} | changed
    path = root / "cudasim" / "fidelity" / "answers" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(facts))
    return path


def differ(root, text):
    (root / "cudasim" / "fidelity" / "differences.toml").write_text(text)


def test_without_answers_it_says_so(suite):
    (line,) = tables(suite)
    several = sum(each.gpus > 1 for each in programs().values())
    assert line == (
        f"No real GPU has answered yet: {len(programs())} programs wait, {several} of them for two "
        "GPUs. `python cudasim/fidelity record` asks the GPUs of a machine that has some."
    )


def test_differences_are_counted_and_told_with_their_reasons(suite):
    answer(suite)
    answer(suite, "2xt4", card="Tesla T4", gpus=2)
    differ(
        suite,
        "['mixing.adding']\nkind = 'simulation'\nreason = 'Why.'\ncards = ['h100']\n"
        "['moves.copy_home']\nkind = 'hardware'\nreason = 'So.'\n"
        "['sparse.products_stay']\nkind = 'hardware'\nreason = 'No card was asked.'\n",
    )
    lines = tables(suite)
    assert lines[2].startswith("| 2 x Tesla T4 |") and "| 3 | 2 | 1 |" in lines[2]
    assert lines[3].startswith("| NVIDIA H100 |") and "| 3 | 1 | 2 |" in lines[3]
    assert sorted(lines[-2:]) == [
        "| `mixing.adding` | h100 | simulation | Why. |",
        "| `moves.copy_home` | 2xt4, h100 | hardware | So. |",
    ]


def test_a_card_has_a_row_of_counts_and_a_changed_program_waits(suite):
    answer(suite)
    total = len(programs())
    row = "| NVIDIA H100 | 2.11.0 | 12.8 | 2026-11-21 |"
    assert tables(suite)[2:] == [f"{row} {total} | 3 | 3 | 0 | {total - 3} |"]
    theme = suite / "cudasim" / "fidelity" / "programs" / "moves.py"
    text = theme.read_text()
    theme.write_text(text.replace("target = torch.zeros(3)\n", "target = torch.ones(3)\n"))
    assert theme.read_text() != text
    assert tables(suite)[2:] == [f"{row} {total} | 2 | 2 | 0 | {total - 2} |"]


RECORD = (
    "cudasim/fidelity/answers/h100.json: not what the recorder writes; record it again with "
    "'python cudasim/fidelity record'"
)
REASON = "differences.toml: give each program a kind and a reason"
FAULTS = [
    *(("answers/h100.json", text, RECORD) for text in ("{", "[]", '{"card": "NVIDIA H100"}')),
    *(
        ("differences.toml", text, REASON)
        for text in ("[", "['a.b']\nkind = 'simulation'", "a = 1")
    ),
    ("programs/moves.py", "def f(:\n", "'python cudasim/fidelity list' fails: SyntaxError"),
]


@pytest.mark.parametrize(("file", "text", "advice"), FAULTS)
def test_a_broken_file_stops_the_page(suite, file, text, advice):
    answer(suite)
    (suite / "cudasim" / "fidelity" / file).write_text(text)
    with refused(advice):
        tables(suite)


def test_the_page_of_this_book_can_be_drawn():
    lines = tables(ROOT)
    assert ("No real GPU has answered yet" in lines[0]) == (not list(ANSWERS.glob("*.json")))


def test_the_outputs_and_the_answers_of_a_card_have_one_name():
    assert (cards.MAKERS, cards.DETAILS) == (recording.MAKERS, recording.DETAILS)
    for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H200", "Tesla T4"):
        assert cards.card_folder([name]) == recording.card_folder([name])
    for name in ("NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 4090", "AMD Instinct MI300X OAM"):
        assert cards.card_folder([name] * 2) == recording.card_folder([name] * 2)
