"""The workflows of `.github/`: what their steps do, run as a runner runs them."""

import os
import re
import shutil
import subprocess
from collections import ChainMap

import pytest
import yaml
from helpers import ROOT

FOLDER = ROOT / ".github" / "workflows"
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
RIGHTS = {
    "actions/checkout": {"contents": "read"},
    "actions/deploy-pages": {"pages": "write", "id-token": "write"},
}
JOBS = WORKFLOWS["tests.yml"]["jobs"]


def bash(command, folder, **variables):
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    words, given = ["bash", "-eo", "pipefail", "-c", command], os.environ | variables
    return subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True)


def test_what_others_wrote_is_pinned_has_least_rights_and_sees_no_secret():
    used = {
        use for text in TEXTS.values() for use in re.findall(r"\buses: *(.*)", text)
    }
    assert used and [use for use in used if not PINNED.fullmatch(use)] == []
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
        for job in workflow["jobs"].values():
            actions = {step.get("uses", "").partition("@")[0] for step in job["steps"]}
            needed = dict(ChainMap(*(RIGHTS.get(name, {}) for name in actions)))
            assert job.get("permissions", {}) == needed
            assert job["timeout-minutes"] <= 120
    text = "".join(TEXTS.values())
    assert not re.search("secrets|pull_request_target|workflow_run|self-hosted", text)
    assert re.findall(r"vars\.\w+", text) == ["vars.GPU_RUNNER"]


@pytest.mark.parametrize(
    ("label", "event", "source", "reason"),
    [
        ("", "push", "", "GPU_RUNNER is not set"),
        ("h100", "push", "", None),
        ("h100", "pull_request", "me/book", None),
        ("h100", "pull_request", "you/book", "a fork"),
        ("h100", "pull_request", "", "a fork"),  # one that is gone
    ],
)
def test_gpu_job_runs_where_there_is_a_label_and_says_why_not(
    tmp_path, label, event, source, reason
):
    """The step itself, run as the runner runs it: its words, and what the job is said."""
    step = JOBS["gpu-runner"]["steps"][0]
    said = tmp_path / "output"
    said.touch()
    given = {"LABEL": label, "EVENT": event, "FROM": source}
    assert step["env"].keys() == given.keys()
    given |= {"GITHUB_REPOSITORY": "me/book", "GITHUB_OUTPUT": str(said)}
    run = bash(step["run"], tmp_path, **given)
    assert run.returncode == 0, run.stderr
    assert said.read_text(encoding="utf-8") == ("" if reason else f"label={label}\n")
    assert reason in run.stdout if reason else run.stdout == ""


def test_workflows_call_targets_that_the_makefile_has():
    jobs = [job for workflow in WORKFLOWS.values() for job in workflow["jobs"].values()]
    commands = "\n".join(step.get("run", "") for job in jobs for step in job["steps"])
    calls = re.findall(r"^make ([^|>]*?)(?: 2>.*)?$", commands, re.M)
    wanted = {word for call in calls for word in call.split() if "=" not in word}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert wanted and wanted <= set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.M))


@pytest.mark.parametrize("name", ["one", "two"])
def test_site_job_refuses_outputs_that_are_changed_or_untracked(tmp_path, name):
    """What it runs between the book and the hand-over, in a clean checkout of one file."""
    commands = [step.get("run") or step["uses"] for step in JOBS["site"]["steps"]]
    built = next(
        n for n, line in enumerate(commands) if re.search(r"^make .*book", line)
    )
    handed = next(n for n, line in enumerate(commands) if "upload-" in line)
    check = "\n".join(commands[built + 1 : handed])
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "one.ipynb").write_text("{}")
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "page.html").touch()
    (tmp_path / ".gitignore").write_text("_build/\n")
    author = "-c user.name=A -c user.email=a@example.org"
    commit = f"git init -q; git add .; git {author} commit -qm One"
    assert bash(commit, tmp_path).returncode == bash(check, tmp_path).returncode == 0
    (tmp_path / "outputs" / f"{name}.ipynb").write_text('{"cells": []}')
    assert bash(check, tmp_path).returncode
