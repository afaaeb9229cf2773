"""The facts: tables that say what is recorded, commands that record, and files that are broken."""

import functools
import json
from dataclasses import replace

import pytest
from programs import write

from facts import suites, survey, tables
from facts.survey import Verdict
from fidelity import comparing, index

ROW = {"python": "3.11.7", "torch": "2.13.0+cpu", "system": "Linux x86_64"}
ROW |= {"passed": 7, "failed": 0, "skipped": 1, "date": "2026-11-22"}
CARD = {
    "card": "H100",
    "provenance": {"hardware": "NVIDIA H100", "date": "2026-11-21"},
    "rows": [
        {
            "name": "a sum",
            "measured": 1e-3,
            "modelled": 2e-3,
            "ratio": 2.0,
            "counted": True,
        },
        {
            "name": "on the host",
            "measured": 1e-3,
            "modelled": 9.0,
            "ratio": 9e3,
            "counted": False,
        },
    ],
}


QUICK = tables.TABLES.keys() - {
    "timings"
}  # which asks the model for all that was published


@pytest.mark.parametrize(
    "name", [*sorted(QUICK), pytest.param("timings", marks=pytest.mark.full)]
)
def test_a_table_is_what_its_data_give(name):
    text = (tables.HERE / f"{name}.md").read_text(encoding="utf-8")
    assert text == tables.drawn(name), (
        f"'{tables.COMMAND} tables' draws facts/{name}.md afresh"
    )
    readme = tables.README.read_text(encoding="utf-8")
    assert readme == tables.with_suites(readme)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of facts that holds one row of support, and a folder for more."""
    monkeypatch.setattr(tables, "HERE", tmp_path)
    (tmp_path / "support.json").write_text(json.dumps({"rows": [ROW]}))
    (tmp_path / "rows").mkdir()
    return tmp_path


def test_a_newer_row_of_support_takes_the_place_of_an_older(here, facts):
    newer = {"python": "3.11.9", "passed": 8, "date": "2026-11-23"}
    for name, changes in (("a", newer), ("b", {"python": "3.12.1"})):
        (here / "rows" / f"{name}.json").write_text(json.dumps(ROW | changes))
    facts("support", here / "rows")
    assert (here / "support.md").read_text().splitlines()[2:] == [
        "| 3.11.9 | 2.13.0+cpu | Linux x86_64 | 8 | 0 | 1 | 2026-11-23 |",
        "| 3.12.1 | 2.13.0+cpu | Linux x86_64 | 7 | 0 | 1 | 2026-11-22 |",
    ]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"python": "3.11"}'])
def test_what_is_no_row_of_support_is_named_and_nothing_is_written(here, text, facts):
    if text:
        (here / "rows" / "bad.json").write_text(text)
    with pytest.raises(
        SystemExit, match="bad.json: not what" if text else "rows: holds no row"
    ):
        facts("support", here / "rows")
    assert json.loads((here / "support.json").read_text())["rows"] == [ROW]
    assert not (here / "support.md").exists()


def test_a_survey_is_kept_unless_something_failed(here, monkeypatch, facts):
    verdicts = [Verdict("operator", "lu", "expected", "why", 1, 0.0)]
    verdicts.append(Verdict("operator", "sin", "failed", "", 1, 0.0))
    monkeypatch.setattr(survey, "load_databases", lambda: ({}, {}))
    monkeypatch.setattr(survey, "survey", lambda *_: iter(verdicts))
    with pytest.raises(SystemExit, match="nothing is written"):
        facts("survey")
    assert not (here / "survey.json").exists()
    verdicts[1] = Verdict("operator", "sin", "passed", "", 1, 0.0)
    facts("survey")
    assert {"date", "hardware", "torch"} < json.loads(
        (here / "survey.json").read_text()
    ).keys()
    lines = (here / "survey.md").read_text().splitlines()
    assert (
        "| operators | 2 | 1 | 50.0 % | 0 |" in lines and lines[-1] == "| `lu` | why |"
    )


SUITE = """
import pytest, torch

def test_on_the_cpu():
    pass

@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_on_gpus():
    assert torch.ones(2, device="cuda:1").sum() == 2

def test_of_the_driver():
    assert not torch.cuda.is_available()

def test_that_fails_anyway():
    assert False
"""
LISTED = '[pytest]\ntests = ["tests"]\n'
WHY = '[pytest.reasons]\n"It asks the driver." = ["tests.test_all::test_of_*"]'


@pytest.mark.full
def test_tests_of_a_project_are_counted_with_and_without_gpus(here, facts, monkeypatch):
    project, listed = here / "project", here / "suites.toml"
    readme = write(here / "README.md", "<!-- suites -->\n<!-- end of suites -->")
    write(here / "suites.json", '{"projects": []}')
    write(listed, LISTED + WHY)
    write(project / "tests" / "test_all.py", SUITE)
    monkeypatch.setattr(suites, "LISTED", listed)
    monkeypatch.setattr(tables, "README", readme)
    real = suites._verdicts
    once = functools.cache(lambda gpus: real(project, {"tests": ["tests"]}, gpus))
    monkeypatch.setattr(
        suites, "_verdicts", lambda *given: once(given[-1])
    )  # it takes long
    facts("suites", f"pytest={project}")
    (row,) = json.loads((here / "suites.json").read_text())["projects"]
    counts = {"alone": 2, "passed": 2, "thanks": 1, "failed": 1, "anyway": 1}
    assert counts.items() <= row.items() and row["reasons"] == [
        [1, "It asks the driver."]
    ]
    assert "| pytest | 1 | It asks the driver. |" in readme.read_text()
    write(listed, LISTED)
    for given, said in (
        (f"pytest={project}", r"test_of_the_driver: failed, no reason in suites\.toml"),
        ("other=x", "not a project of suites.toml"),
        ("pytest=x", "no tests there"),
    ):
        with pytest.raises(SystemExit, match=said):
            facts("suites", given)


def test_a_card_that_was_measured_comes_first(here, monkeypatch):
    about = json.loads(tables.published.PATH.read_text(encoding="utf-8"))[0]
    path = write(here / "timings" / "published.json", json.dumps([about]))
    card = write(path.with_name("h100.json"), json.dumps(CARD))
    monkeypatch.setattr(tables.published, "PATH", path)
    fit = tables.published.Row(about["id"], "T4", "fit", 2e-3, 1e-3)
    rows = [fit, replace(fit, use="validate", modelled=2e-3)]
    monkeypatch.setattr(tables.published, "rows", lambda: rows)
    lines = tables.timings()
    assert lines[0].startswith(
        "**H100**, measured on NVIDIA H100, 2026-11-21: median error 100%"
    )
    assert "| a sum | 1.00 | 2.00 | 2.00 |" in lines
    assert any(
        "not used to fit the model: median error 0%, 100% within" in line
        for line in lines
    )
    assert any(line.endswith("| 2.00 | 1.00 | 0.50 |") for line in lines)
    write(card, "{}")
    with pytest.raises(
        comparing.BadFile, match="not what 'python cudasim/facts calibrate' writes"
    ):
        tables.timings()


@pytest.mark.parametrize("name", ["survey", "conformance", "support"])
@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_file_is_one_line(here, name, text):
    (here / f"{name}.json").write_text(text)
    with pytest.raises(comparing.BadFile) as error:
        tables.drawn(name)
    (line,) = str(error.value).splitlines()
    assert f"{name}.json: not what 'python cudasim/facts {name}' writes" in line


SOME = ["devices.devices_print", "mixing.adding", "moves.copy_home"]


def test_answers_of_cards_are_counted_and_differences_told_with_their_reasons(
    here, monkeypatch
):
    known = index.programs()
    for name, gpus in (("h100", 1), ("2xt4", 2)):
        said = {program: {"code": known[program].code, "answer": 1} for program in SOME}
        if gpus == 2:
            said[SOME[0]]["code"] = "of an earlier program"  # it waits
        facts = dict.fromkeys(comparing.FACTS, "") | {
            "card": name,
            "gpus": gpus,
            "programs": said,
        }
        write(here / "answers" / f"{name}.json", json.dumps(facts))
    text = "['mixing.adding']\nkind = 'simulation'\nreason = 'Why.'\ncards = ['h100']\n"
    text += "['moves.copy_home']\nkind = 'hardware'\nreason = 'So.'\n"
    text += (
        "['sparse.products_stay']\nkind = 'hardware'\nreason = 'No card was asked.'\n"
    )
    listed = comparing.read_differences(write(here / "list.toml", text))
    monkeypatch.setattr(index, "ANSWERS", here / "answers")
    monkeypatch.setattr(comparing, "read_differences", lambda: listed)
    lines, total = tables.fidelity(), len(known)
    assert lines[2] == f"| 2 x 2xt4 |  |  |  | {total} | 2 | 1 | 1 | {total - 2} |"
    assert lines[3] == f"| h100 |  |  |  | {total} | 3 | 1 | 2 | {total - 3} |"
    assert sorted(lines[-2:]) == [
        "| `mixing.adding` | h100 | simulation | Why. |",
        "| `moves.copy_home` | 2xt4, h100 | hardware | So. |",
    ]
