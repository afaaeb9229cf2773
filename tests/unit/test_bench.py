"""`python -m tools bench`: groups of figures, each written when it is measured."""

import json
import subprocess

from helpers import refused

from tools import bench
from tools.stages import TIMES


def test_the_times_of_the_last_run_are_what_is_reported(tmp_path):
    with refused(TIMES, "'make test' writes it"):
        list(bench.tests(tmp_path, tmp_path))
    (tmp_path / "_build").mkdir()
    (tmp_path / TIMES).write_text('{"seconds": {"unit": 62.0, "site": 30.0}}')
    figures = [(value, unit) for _, value, unit, *_ in bench.tests(tmp_path, tmp_path)]
    assert figures == [(1.5, "min"), (62, "s"), (30, "s")]


def test_a_group_of_figures_is_measured_alone_and_the_others_stay(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "book").mkdir()
    row = ("a build", 1, "s", "", "make book")
    monkeypatch.setattr(bench, "GROUPS", dict.fromkeys(("one", "two"), lambda *_: [row]))
    for name in ("two", "one"):
        bench.measure([name], tmp_path)
    groups = json.loads((tmp_path / bench.BENCH).read_text())
    assert list(groups) == ["one", "two"]
    assert groups["two"]["figures"] == [dict(zip(bench.COLUMNS, row, strict=True))]
    with refused("GROUP: no figures 'third'; choose from: one, two"):
        bench.measure(["third"], tmp_path)
