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
TOO_LONG = reasons.Reason(
    "hardware", "slow", ("test_cuda::TestSome.test_g_takes_too_long",), run=False
)
OTHERS = reasons.Reason("hardware", "why", ("test_cuda::TestSome.*",))
OUTCOMES = {
    "a_dies": ("crashed", "exit status 3"),
    "b_hangs": ("too slow", "more than 15 s"),
    "c_fails": ("failed", "AssertionError: 2.0 != 3"),
    "d_passes": ("passed", ""),
    "e_skipped": ("skipped", "not here"),
    "f_parts": ("failed", "AssertionError: 1 != 0"),
    "g_takes_too_long": ("not run", ""),
}


def test_outcomes_are_kept_once_every_failure_has_a_reason(
    tmp_path, monkeypatch, facts
):
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(running, "FILES", ("test_cuda",))
    monkeypatch.setattr(reasons, "read", lambda: [TOO_LONG])
    path = write(tmp_path / "test" / "test_cuda.py", TESTS)
    write(path.with_name("torchvision.py"), "raise RuntimeError('nms does not exist')")
    outcomes = tmp_path / "outcomes"
    command = ["conformance", tmp_path, "--outcomes", outcomes, "--limit", 15]

    message = r"TestSome\.test_c_fails: failed, no reason in reasons"
    with pytest.raises(SystemExit, match=message):
        facts(*command)
    assert not (tmp_path / "conformance.json").exists()
    notes = outcomes / "test_cuda.jsonl"
    verdicts = running.run(path, notes, 15, print)  # nothing is left to run
    assert len(verdicts) == len(OUTCOMES)
    for verdict in verdicts:
        name = verdict.test.removeprefix("TestSome.test_")
        outcome, reason = OUTCOMES[name]
        assert verdict.outcome == outcome
        assert verdict.reason.startswith(reason)

    # As if a run had been stopped in the fourth test.
    lines = notes.read_text().splitlines(keepends=True)
    begun = next(number for number, line in enumerate(lines) if "d_passes" in line)
    notes.write_text("".join(lines[: begun + 1]))
    monkeypatch.setattr(reasons, "read", lambda: [TOO_LONG, OTHERS])
    facts(*command, "--resume")
    assert running.run(path, notes, 15, print) == verdicts
    lines = (tmp_path / "conformance.md").read_text().splitlines()
    assert "| test_cuda | 7 | 1 | 4 | 1 | 1 |" in lines
    assert lines[-2:] == [
        "| test_cuda | 1 | hardware | slow |",
        "| test_cuda | 4 | hardware | why |",
    ]


def test_a_file_that_cannot_be_loaded_is_one_failure(tmp_path):
    path = write(tmp_path / "test_none.py", "from torch import what_is_not_there")
    (verdict,) = running.run(path, tmp_path / "none.jsonl", 60, print)
    assert verdict.test == LOADING
    assert verdict.outcome == "failed"
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
    folder = tmp_path / "test"
    write(folder / "test_cuda_trace.py", SLEEPS)
    worker = folder / "worker"  # where the test writes the number of its process
    command = [sys.executable, PROJECT / "facts", "conformance", tmp_path]
    command += ["test_cuda_trace", "--outcomes", tmp_path / "records"]
    run = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    while run.poll() is None and not (worker.exists() and worker.read_text()):
        time.sleep(0.1)

    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert len(errors.splitlines()) == 1
    process = int(worker.read_text())
    with pytest.raises(ProcessLookupError):
        for _ in range(600):
            os.kill(process, 0)
            time.sleep(0.1)


def read_list(tmp_path, text):
    """Read a list with one reason, whose beginning is given."""
    text = f'[[reason]]\nkind = "hardware"\nreason = "why"\n{text}'
    return reasons.read(write(tmp_path / "reasons.toml", text))


EXPLAINED = Verdict("A.one", "failed", "")
UNEXPLAINED = Verdict("B.new", "crashed", "")
PASSED = Verdict("B.gone", "passed", "")
SKIPPED = Verdict("B.left", "skipped", "")
VERDICTS = [EXPLAINED, PASSED, SKIPPED, UNEXPLAINED]


@pytest.fixture
def listed(tmp_path):
    """A list that explains the failures of A and, needlessly, one of B."""
    return read_list(tmp_path, 'tests = ["file::A.*", "file::B.gone"]')


def test_a_failure_without_a_reason_is_named(listed):
    assert reasons.unexplained("file", VERDICTS, listed) == [UNEXPLAINED]


def test_a_reason_without_a_failure_is_named(listed):
    assert reasons.outdated({"file": VERDICTS}, listed) == ["file::B.gone"]
    assert reasons.outdated({"other": []}, listed) == []  # the file was not run


OTHER_KIND = 'tests = ["a"]\n[[reason]]\nkind = "o"\nreason = "w"\ntests = ["a"]'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[reason", "no TOML"),
        ("", "say kind, reason and tests"),
        (OTHER_KIND, "kind is one of"),
        ('run = false\ntests = ["a::*"]', "false for full names"),
    ],
)
def test_a_bad_list_is_refused(tmp_path, text, words):
    with pytest.raises(ConformanceError, match=words):
        read_list(tmp_path, text)


def test_the_list_names_files_that_are_run():
    for reason in reasons.read():
        files_named = {name.partition("::")[0] for name in reason.tests}
        assert files_named <= set(running.FILES)


@pytest.mark.parametrize(
    ("name", "words"),
    [("test_cuda", "give the folder of Py"), ("test_other", "no file of the l")],
)
def test_a_folder_without_tests_is_refused_in_one_line(tmp_path, facts, name, words):
    with pytest.raises(SystemExit, match=f"^[^\n]*{words}[^\n]*$"):
        facts("conformance", tmp_path, name)
