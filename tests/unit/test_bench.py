"""`python -m tools bench`: groups of figures, each written when it is measured."""

import json
import subprocess

from helpers import refused

from tools import bench
from tools.stages import TIMES, write_times


def test_the_times_of_the_last_run_are_what_is_reported(tmp_path):
    with refused(TIMES, "'make test' writes it"):
        list(bench.tests(tmp_path, tmp_path))
    write_times({"unit": 62.0, "site": 30.0}, tmp_path)
    figures = [(value, unit) for _, value, unit, *_ in bench.tests(tmp_path, tmp_path)]
    assert figures == [(1.5, "min"), (62, "s"), (30, "s")]
    (tmp_path / TIMES).write_text("{}")
    with refused(TIMES, "not what 'make test' writes"):
        list(bench.tests(tmp_path, tmp_path))


def test_a_group_of_figures_is_measured_alone_and_the_others_stay(tmp_path, monkeypatch):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "book").mkdir()
    row = ("a build", 1, "s", "", "make book")
    monkeypatch.setattr(bench, "GROUPS", dict.fromkeys(("one", "two"), lambda *_: [row]))
    written = tmp_path / bench.BENCH
    bench.measure(["two"], tmp_path)
    assert list(json.loads(written.read_text())) == ["two"]
    bench.measure(["one"], tmp_path)
    groups = json.loads(written.read_text())
    assert list(groups) == ["one", "two"]
    assert groups["two"]["figures"] == [dict(zip(bench.COLUMNS, row, strict=True))]
    with refused("GROUP: no figures 'third'; choose from: one, two"):
        bench.measure(["third"], tmp_path)
    written.write_text("[")
    with refused(bench.BENCH, "remove it and run it again"):
        bench.measure(["one"], tmp_path)
