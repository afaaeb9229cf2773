"""The command that runs PyTorch's own tests: outcomes, deaths of processes, and reasons."""

import os
import signal
import subprocess
import sys
import time

import pytest
from programs import PROJECT, write

from conformance import ConformanceError, reasons, running
from conformance.running import LOADING, Verdict
from facts import files

pytestmark = pytest.mark.full  # each case starts Python and PyTorch, and kills them

TESTS = """
import gc, os, time, unittest
import torch
try:
    import torchvision  # of another build: see below
except ImportError:
    torchvision = None

class TestSome(unittest.TestCase):
    def test_a_dies(self):
        os._exit(3)

    def test_b_hangs(self):
        time.sleep(60)

    def test_c_fails(self):
        gc.set_debug(gc.DEBUG_SAVEALL)
        loop = []
        loop.append(loop)
        del loop
        gc.collect()
        self.assertEqual(torch.ones(2, device="cuda:1").sum().item(), 3)

    def test_d_passes(self):
        self.assertEqual(torch.cuda.device_count(), 2)
        self.assertEqual(os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"], "cuda")
        self.assertEqual((gc.get_debug(), gc.garbage), (0, []))  # as before the test that fails
        self.assertIsNone(torchvision)

    @unittest.skip("not here")
    def test_e_skipped(self):
        pass

    def test_f_parts(self):
        for part in range(2):
            with self.subTest(part=part):
                self.assertEqual(part, 0)

    def test_g_takes_too_long(self):
        time.sleep(600)
"""
LEFT_OUT = reasons.Reason(
    "hardware", "slow", ("test_cuda::TestSome.test_g_takes_too_long",), False
)


def test_each_outcome_is_noted_and_kept_once_every_failure_has_its_reason(
    tmp_path, monkeypatch, facts
):
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(running, "FILES", ("test_cuda",))
    monkeypatch.setattr(reasons, "read", lambda: [LEFT_OUT])
    command = [
        "conformance",
        tmp_path,
        "--outcomes",
        tmp_path / "outcomes",
        "--limit",
        15,
    ]
    path = write(tmp_path / "test" / "test_cuda.py", TESTS)
    write(path.with_name("torchvision.py"), "raise RuntimeError('nms does not exist')")
    with pytest.raises(
        SystemExit, match=r"TestSome\.test_c_fails: failed, no reason in reasons"
    ):
        facts(*command)
    assert not (tmp_path / "conformance.json").exists()
    records = tmp_path / "outcomes" / "test_cuda.jsonl"
    verdicts = running.run(
        path, records, 15, print, reasons.left_out("test_cuda", [LEFT_OUT])
    )
    found = {verdict.test.partition(".test_")[2]: verdict for verdict in verdicts}
    assert {name: verdict.outcome for name, verdict in found.items()} == {
        **{
            "a_dies": "crashed",
            "b_hangs": "too slow",
            "c_fails": "failed",
            "d_passes": "passed",
        },
        **{"e_skipped": "skipped", "f_parts": "failed", "g_takes_too_long": "not run"},
    }
    assert (
        found["a_dies"].reason == "exit status 3"
        and found["e_skipped"].reason == "not here"
    )
    assert found["c_fails"].reason.startswith("AssertionError: 2.0 != 3")

    lines = (
        records.read_text().splitlines()
    )  # as if a run had been stopped in the fourth test
    stopped = next(number for number, line in enumerate(lines) if "d_passes" in line)
    records.write_text("\n".join(lines[: stopped + 1]) + "\n")
    why = reasons.Reason("hardware", "why", ("test_cuda::TestSome.*",))
    monkeypatch.setattr(reasons, "read", lambda: [LEFT_OUT, why])
    facts(*command, "--resume")
    assert running.run(path, records, 15, print) == verdicts
    lines = (tmp_path / "conformance.md").read_text().splitlines()
    assert "| test_cuda | 7 | 1 | 4 | 1 | 1 |" in lines
    rows = ["| test_cuda | 1 | hardware | slow |", "| test_cuda | 4 | hardware | why |"]
    assert lines[-2:] == rows


def test_a_file_that_cannot_be_loaded_is_one_failure(tmp_path):
    path = write(tmp_path / "test_none.py", "from torch import what_is_not_there")
    (verdict,) = running.run(path, tmp_path / "none.jsonl", 60, print)
    assert (verdict.test, verdict.outcome) == (LOADING, "failed")
    assert "what_is_not_there" in verdict.reason


SLEEPS = """
import os, pathlib, time, unittest

class TestSome(unittest.TestCase):
    def test_sleeps(self):
        pathlib.Path("worker").write_text(str(os.getpid()))
        time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="the signals of POSIX")
def test_a_run_that_is_stopped_ends_its_worker(tmp_path):
    worker = write(tmp_path / "test" / "test_cuda_trace.py", SLEEPS).with_name("worker")
    command = [sys.executable, PROJECT / "facts", "conformance", tmp_path]
    command += ["test_cuda_trace", "--outcomes", tmp_path / "records"]
    run = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while run.poll() is None and not (worker.exists() and worker.read_text()):
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and len(said.splitlines()) == 1
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.kill(int(worker.read_text()), 0)
            time.sleep(0.1)


def listed(tmp_path, text):
    text = f'[[reason]]\nkind = "hardware"\nreason = "why"\n{text}'
    return reasons.read(write(tmp_path / "reasons.toml", text))


def test_a_failure_without_a_reason_and_a_reason_without_a_failure_are_named(tmp_path):
    known = listed(tmp_path, 'tests = ["file::A.*", "file::B.gone"]')
    outcomes = {
        "A.one": "failed",
        "B.gone": "passed",
        "B.new": "crashed",
        "B.left": "skipped",
    }
    found = [Verdict(name, outcome, "") for name, outcome in outcomes.items()]
    assert [verdict.test for verdict in reasons.unexplained("file", found, known)] == [
        "B.new"
    ]
    assert reasons.outdated({"file": found}, known) == ["file::B.gone"]
    assert reasons.outdated({"other": []}, known) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[reason", "no TOML"),
        ("", "say kind, reason and tests"),
        (
            'tests = ["a"]\n[[reason]]\nkind = "o"\nreason = "w"\ntests = ["a"]',
            "kind is one of",
        ),
        ('run = false\ntests = ["a::*"]', "false for full names"),
    ],
)
def test_a_bad_list_is_refused(tmp_path, text, words):
    with pytest.raises(ConformanceError, match=words):
        listed(tmp_path, text)


def test_the_list_names_files_that_are_run():
    for reason in reasons.read():
        assert {name.partition("::")[0] for name in reason.tests} <= set(running.FILES)


def test_a_folder_without_tests_is_refused_in_one_line(tmp_path, facts):
    for name, words in (
        ("test_cuda", "give the folder of Py"),
        ("test_other", "no file of the l"),
    ):
        with pytest.raises(SystemExit, match=f"^[^\n]*{words}[^\n]*$"):
            facts("conformance", tmp_path, name)
