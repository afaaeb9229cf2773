"""The workflows of `.github/`: what their steps do, run as a runner runs them."""

import os
import re
import shutil
import subprocess

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
    "pypa/gh-action-pypi-publish": {"id-token": "write"},
}
JOBS = WORKFLOWS["tests.yml"]["jobs"]


def bash(command, folder, **variables):
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )


def all_jobs():
    jobs = []
    for workflow in WORKFLOWS.values():
        jobs += workflow["jobs"].values()
    return jobs


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_the_actions_of_others_are_pinned(text):
    actions = re.findall(r"\buses: *(.*)", text)
    assert actions
    for action in actions:
        assert PINNED.fullmatch(action)


def test_jobs_have_the_least_rights():
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {}
    for job in all_jobs():
        needed = {}
        for step in job["steps"]:
            action = step.get("uses", "").partition("@")[0]
            needed |= RIGHTS.get(action, {})
            if "gh release create" in step.get("run", ""):
                needed |= {"contents": "write"}
        assert job.get("permissions", {}) == needed
        assert job["timeout-minutes"] <= 120


def test_no_secret_and_no_unknown_code_is_let_in():
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
def test_the_gpu_job_runs_where_there_is_a_label(
    tmp_path, label, event, source, reason
):
    """The step is run as a runner runs it: what it prints, and what the job is told."""
    step = JOBS["gpu-runner"]["steps"][0]
    output = tmp_path / "output"
    output.touch()
    variables = {"LABEL": label, "EVENT": event, "FROM": source}
    assert step["env"].keys() == variables.keys()
    variables |= {"GITHUB_REPOSITORY": "me/book", "GITHUB_OUTPUT": str(output)}

    run = bash(step["run"], tmp_path, **variables)
    assert run.returncode == 0, run.stderr
    outputs = output.read_text(encoding="utf-8")
    if reason:
        assert outputs == ""
        assert reason in run.stdout
    else:
        assert outputs == f"label={label}\n"
        assert run.stdout == ""


def test_workflows_call_targets_that_the_makefile_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.M))
    called = set()
    for job in all_jobs():
        for step in job["steps"]:
            commands = step.get("run", "")
            for call in re.findall(r"^make ([^|>]*?)(?: 2>.*)?$", commands, re.M):
                called.update(word for word in call.split() if "=" not in word)
    assert called
    assert called <= targets


def commands_between_build_and_upload():
    commands = [step.get("run") or step["uses"] for step in JOBS["site"]["steps"]]
    [build] = [line for line in commands if re.search(r"^make .*book", line)]
    uploads = [line for line in commands if "upload-" in line]
    between = commands[commands.index(build) + 1 : commands.index(uploads[0])]
    return "\n".join(between)


@pytest.mark.parametrize("name", ["one", "two"], ids=["changed", "untracked"])
def test_the_site_job_refuses_outputs_of_no_commit(tmp_path, name):
    check = commands_between_build_and_upload()
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "one.ipynb").write_text("{}")
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "page.html").touch()
    (tmp_path / ".gitignore").write_text("_build/\n")
    author = "-c user.name=A -c user.email=a@example.org"
    commit = f"git init -q; git add .; git {author} commit -qm One"
    assert bash(commit, tmp_path).returncode == 0
    assert bash(check, tmp_path).returncode == 0
    (tmp_path / "outputs" / f"{name}.ipynb").write_text('{"cells": []}')
    assert bash(check, tmp_path).returncode
