"""The facts: tables that say what is recorded, commands that record, and files that are broken."""

import json
from dataclasses import replace

import pytest
from programs import write

from facts import FactsError, files, model_tables, suites, survey, tables
from facts.published import PATH, Row
from facts.survey import Verdict
from fidelity import comparing, recording
from fidelity.index import programs

ROW = {
    "python": "3.11.7",
    "torch": "2.13.0+cpu",
    "system": "Linux x86_64",
    "passed": 7,
    "failed": 0,
    "skipped": 1,
    "date": "2026-11-22",
}
# `timings` asks the model for all that was published.
QUICK = sorted(tables.TABLES.keys() - {"timings"})


@pytest.mark.parametrize(
    "name", [*QUICK, pytest.param("timings", marks=pytest.mark.full)]
)
def test_a_table_is_what_its_data_give(name):
    text = (files.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    afresh = f"'{files.COMMAND} tables' draws facts/{name}.md afresh"
    assert text == tables.draw(name), afresh


def test_the_readme_has_the_table_of_other_projects():
    readme = files.PROJECTS_PAGE.read_text(encoding="utf-8")
    assert readme == tables.with_suites(readme)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of facts that holds one row of support, and a folder for more."""
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    (tmp_path / "support.json").write_text(json.dumps({"rows": [ROW]}))
    (tmp_path / "rows").mkdir()
    return tmp_path


def test_a_newer_row_of_support_takes_the_place_of_an_older(folder, facts):
    newer = ROW | {"python": "3.11.9", "passed": 8, "date": "2026-11-23"}
    other = ROW | {"python": "3.12.1"}
    (folder / "rows" / "a.json").write_text(json.dumps(newer))
    (folder / "rows" / "b.json").write_text(json.dumps(other))
    facts("support", folder / "rows")
    assert (folder / "support.md").read_text().splitlines()[2:] == [
        "| 3.11.9 | 2.13.0+cpu | Linux x86_64 | 8 | 0 | 1 | 2026-11-23 |",
        "| 3.12.1 | 2.13.0+cpu | Linux x86_64 | 7 | 0 | 1 | 2026-11-22 |",
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"python": "3.11"}'])
def test_what_is_no_row_of_support_is_refused(folder, text, facts):
    (folder / "rows" / "bad.json").write_text(text)
    with pytest.raises(SystemExit, match=r"bad\.json: not what"):
        facts("support", folder / "rows")
    assert json.loads((folder / "support.json").read_text())["rows"] == [ROW]
    assert not (folder / "support.md").exists()


def test_a_folder_without_rows_is_refused(folder, facts):
    with pytest.raises(SystemExit, match="rows: holds no row"):
        facts("support", folder / "rows")


def test_a_survey_is_kept_unless_something_failed(folder, monkeypatch, facts):
    expected = Verdict("operator", "lu", "expected", "why")
    failed = Verdict("operator", "sin", "failed", "")
    databases = {"operator": {}, "module": {}}
    monkeypatch.setattr(survey, "load_databases", lambda: databases)

    monkeypatch.setattr(survey, "survey", lambda *_: iter([expected, failed]))
    with pytest.raises(SystemExit, match="nothing is written"):
        facts("survey")
    assert not (folder / "survey.json").exists()

    passed = replace(failed, outcome="passed")
    monkeypatch.setattr(survey, "survey", lambda *_: iter([expected, passed]))
    facts("survey")
    kept = json.loads((folder / "survey.json").read_text())
    assert {"date", "hardware", "torch"} < kept.keys()
    exception = {"kind": "operator", "name": "lu", "reason": "why"}
    assert kept["exceptions"] == [exception]
    lines = (folder / "survey.md").read_text().splitlines()
    assert "| operators | 2 | 1 | 50.0 % | 0 |" in lines
    assert lines[-1] == "| `lu` | why |"


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


@pytest.fixture
def project(folder, monkeypatch):
    """The sources of a project that is listed, in a folder of facts with a README."""
    monkeypatch.setattr(suites, "LISTED", write(folder / "suites.toml", LISTED + WHY))
    readme = write(folder / "README.md", f"{tables.BEGIN}{tables.END}")
    monkeypatch.setattr(files, "PROJECTS_PAGE", readme)
    write(folder / "suites.json", '{"projects": []}')
    write(folder / "project" / "tests" / "test_all.py", SUITE)
    return folder / "project"


@pytest.mark.full
def test_tests_of_a_project_are_counted_with_and_without_gpus(project, folder, facts):
    facts("suites", f"pytest={project}")
    (row,) = json.loads((folder / "suites.json").read_text())["projects"]
    counts = {"alone": 2, "passed": 2, "thanks": 1, "failed": 1, "anyway": 1}
    assert counts.items() <= row.items()
    assert row["reasons"] == [[1, "It asks the driver."]]
    line = "| pytest | 1 | It asks the driver. |"
    assert line in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("argument", "message"),
    [("other=x", "not a project of suites.toml"), ("pytest=x", "no tests there")],
)
def test_a_project_that_is_not_there_is_refused(project, facts, argument, message):
    with pytest.raises(SystemExit, match=message):
        facts("suites", argument)


def test_a_test_that_fails_on_gpus_alone_needs_a_reason():
    plain = {"test_a": "passed", "test_b": "failed"}
    simulated = dict.fromkeys(plain, "failed")
    message = r"^test_a: failed, no reason in suites\.toml$"
    with pytest.raises(FactsError, match=message):
        suites.count(plain, simulated, {"Why.": ["test_b"]})


def test_published_figures_are_listed_by_their_use(monkeypatch):
    measurement = json.loads(PATH.read_text(encoding="utf-8"))[0]
    fit = Row(measurement["id"], "T4", "fit", 2e-3, 1e-3)
    validate = replace(fit, use="validate", modelled=2e-3)
    monkeypatch.setattr(model_tables.published, "rows", lambda: [fit, validate])
    lines = model_tables.timings()
    words = "not used to fit the model: median error 0%, 100% within"
    assert any(words in line for line in lines)
    assert any(line.endswith("| 2.00 | 1.00 | 0.50 |") for line in lines)


@pytest.mark.parametrize("name", ["survey", "conformance", "support"])
@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_broken_file_is_one_line(folder, name, text):
    (folder / f"{name}.json").write_text(text)
    with pytest.raises(FactsError) as error:
        tables.draw(name)
    (line,) = str(error.value).splitlines()
    assert f"{name}.json: not what 'python cudasim/facts {name}' writes" in line


def test_answers_of_cards_are_counted_and_differences_told(monkeypatch):
    known = programs()
    answers = {}
    for name in ("mixing.adding", "memory.out_of_memory"):
        answers[name] = {"code": known[name].code, "answer": 1}
    earlier = answers | {"mixing.adding": {"code": "earlier", "answer": 1}}
    facts = dict.fromkeys(recording.Recording.__dataclass_fields__, "")
    one = facts | {"card": "H100", "gpus": 1, "programs": answers}
    two = facts | {"card": "T4", "gpus": 2, "programs": earlier}
    recordings = [recording.Recording(**one), recording.Recording(**two)]
    monkeypatch.setattr(recording, "read_all", lambda: recordings)
    monkeypatch.setattr(comparing, "read_reasons", lambda: {"mixing.adding": "Why."})

    lines = tables.draw("fidelity").splitlines()
    total = len(known)
    assert lines[2] == f"| H100 |  |  |  | 2 | {total - 2} |"
    assert lines[3] == f"| 2 x T4 |  |  |  | 1 | {total - 1} |"
    assert lines[-1] == "| `mixing.adding` | Why. |"
