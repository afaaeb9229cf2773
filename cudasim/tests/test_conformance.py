"""The command that runs PyTorch's own tests: outcomes, deaths of processes, and reasons."""

import os
import signal
import subprocess
import sys
import time

import pytest
from programs import PROJECT

from conformance import reasons, running
from conformance.running import LOADING, Verdict

pytestmark = pytest.mark.full  # each case starts Python and PyTorch, and kills them

TESTS = """
import os
import time
import unittest

import torch


class TestSome(unittest.TestCase):
    def test_a_dies(self):
        os._exit(3)

    def test_b_hangs(self):
        time.sleep(60)

    def test_c_fails(self):
        self.assertEqual(torch.ones(2, device="cuda:1").sum().item(), 3)

    def test_d_passes(self):
        self.assertEqual(torch.cuda.device_count(), 2)
        self.assertEqual(os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"], "cuda")

    @unittest.skip("not here")
    def test_e_skipped(self):
        pass

    def test_f_parts(self):
        for part in range(2):
            with self.subTest(part=part):
                self.assertEqual(part, 0)
"""


def test_each_outcome_is_noted_and_one_death_loses_one_test(tmp_path):
    path, records, told = tmp_path / "test_some.py", tmp_path / "some.jsonl", []
    path.write_text(TESTS)
    verdicts = running.run(path, records, 15, told.append)
    assert {each.test.partition(".test_")[2]: each.outcome for each in verdicts} == {
        "a_dies": "crashed",
        "b_hangs": "too slow",
        "c_fails": "failed",
        "d_passes": "passed",
        "e_skipped": "skipped",
        "f_parts": "failed",
    }
    why = {each.test.partition(".test_")[2]: each.reason for each in verdicts}
    assert why["a_dies"] == "exit status 3" and why["e_skipped"] == "not here"
    assert why["c_fails"].startswith("AssertionError: 2.0 != 3")
    assert len(told) == 2

    lines = records.read_text().splitlines()  # as if a run had been stopped in the fourth test
    cut = next(number for number, line in enumerate(lines) if "d_passes" in line)
    records.write_text("\n".join(lines[: cut + 1]) + "\n")
    assert running.run(path, records, 15, told.append) == verdicts
    assert len(told) == 2


def test_a_test_that_would_use_up_its_time_is_not_run(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(SLEEPS)
    text = (
        '[[reason]]\nkind = "hardware"\nreason = "why"\nrun = false\n'
        'tests = ["test_some::TestSome.test_sleeps", "test_other::TestSome.test_sleeps"]'
    )
    known = reasons.read(listed(tmp_path, text))
    out = reasons.left_out("test_some", known)
    (verdict,) = running.run(path, tmp_path / "some.jsonl", 60, print, out)
    assert (verdict.test, verdict.outcome) == ("TestSome.test_sleeps", "not run")
    assert not (tmp_path / "worker").exists()
    assert not reasons.unexplained("test_some", [verdict], known)
    assert not reasons.outdated({"test_some": [verdict]}, known)


LEAVES = """
import gc
import unittest


class TestSome(unittest.TestCase):
    def test_a_fails_with_garbage_kept(self):
        gc.set_debug(gc.DEBUG_SAVEALL)
        loop = []
        loop.append(loop)
        del loop
        gc.collect()
        self.fail()

    def test_b_begins_anew(self):
        self.assertEqual((gc.get_debug(), gc.garbage), (0, []))
"""


def test_what_a_test_did_to_the_collector_of_garbage_does_not_reach_the_next(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(LEAVES)
    verdicts = running.run(path, tmp_path / "some.jsonl", 60, print)
    assert [each.outcome for each in verdicts] == ["failed", "passed"]


def test_a_file_that_cannot_be_loaded_is_one_failure(tmp_path):
    path = tmp_path / "test_none.py"
    path.write_text("from torch import what_is_not_there")
    (verdict,) = running.run(path, tmp_path / "none.jsonl", 60, print)
    assert (verdict.test, verdict.outcome) == (LOADING, "failed")
    assert "what_is_not_there" in verdict.reason


SLEEPS = """
import os
import time
import unittest


class TestSome(unittest.TestCase):
    def test_sleeps(self):
        with open("worker", "w") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="the signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_ends_its_worker(tmp_path, number):
    tests, records = tmp_path / "test", tmp_path / "records"
    tests.mkdir()
    (tests / "test_cuda_trace.py").write_text(SLEEPS)
    command = [sys.executable, str(PROJECT / "facts"), "conformance", str(tmp_path)]
    command += ["test_cuda_trace", "--outcomes", str(records)]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    worker = tests / "worker"
    wait_until(lambda: worker.exists() and worker.read_text())
    run.send_signal(number)
    assert run.wait(timeout=60) == 130
    wait_until(lambda: not runs(int(worker.read_text())))


def runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(happened, limit=60):
    deadline = time.monotonic() + limit
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_torchvision_of_another_build_does_not_keep_a_file_from_loading(tmp_path):
    broken = tmp_path / "torchvision"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('nms does not exist')")
    path = tmp_path / "test_seen.py"
    path.write_text(SEES)
    (verdict,) = running.run(path, tmp_path / "seen.jsonl", 60, print)
    assert (verdict.test, verdict.outcome) == ("TestSome.test_without", "passed")


SEES = """
import unittest

try:
    import torchvision
except ImportError:
    torchvision = None


class TestSome(unittest.TestCase):
    def test_without(self):
        self.assertIsNone(torchvision)
"""


def listed(tmp_path, text):
    path = tmp_path / "reasons.toml"
    path.write_text(text)
    return path


def test_a_failure_without_a_reason_and_a_reason_without_a_failure_are_named(tmp_path):
    text = '[[reason]]\nkind = "hardware"\nreason = "why"\ntests = ["file::A.*", "file::B.gone"]'
    known = reasons.read(listed(tmp_path, text))
    found = [
        Verdict("A.one", "failed", ""),
        Verdict("B.gone", "passed", ""),
        Verdict("B.new", "crashed", "exit status -11"),
        Verdict("B.left", "skipped", ""),
    ]
    assert [each.test for each in reasons.unexplained("file", found, known)] == ["B.new"]
    assert reasons.outdated({"file": found}, known) == ["file::B.gone"]
    assert reasons.outdated({"other": []}, known) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[reason", "no TOML"),
        ('[[reason]]\nkind = "hardware"', "say kind, reason and tests"),
        ('[[reason]]\nkind = "other"\nreason = "why"\ntests = ["a"]', "kind is one of"),
        (
            '[[reason]]\nkind = "hardware"\nreason = "why"\nrun = false\ntests = ["a::*"]',
            "false for full names",
        ),
        ('[[reason]]\nkind = "hardware"\nreason = " "\ntests = ["a"]', "give the reason"),
    ],
)
def test_a_bad_list_is_refused(tmp_path, text, words):
    with pytest.raises(reasons.BadReasons, match=words):
        reasons.read(listed(tmp_path, text))


def test_the_list_is_in_order_and_names_files_that_are_run():
    for each in reasons.read():
        assert {name.partition("::")[0] for name in each.tests} <= set(running.FILES)


def test_a_folder_without_tests_is_refused(tmp_path):
    command = [sys.executable, str(PROJECT / "facts"), "conformance", str(tmp_path), "test_cuda"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1 and "give the folder of PyTorch's sources" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    with pytest.raises(running.BadSource, match="no file of the list: test_other"):
        running.find(tmp_path, ["test_other"])
