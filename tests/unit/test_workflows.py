"""The workflows of `.github/`: a few rules of our own, on what they say and what they run."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from helpers import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
TESTS = ROOT / ".github" / "workflows" / "tests.yml"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
SOUND = """\
name: Sound
on: push
permissions: {}
concurrency:
  group: sound
  cancel-in-progress: true
jobs:
  one:
    name: One
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - run: echo "$REF"
        env:
          REF: ${{ github.ref }}
"""
CHECKOUT = re.search(r"actions/checkout@.*", SOUND)[0]


def steps(workflow):
    """(job, step) for every step of a workflow's text."""
    for job in yaml.safe_load(workflow)["jobs"].values():
        for step in job["steps"]:
            yield job, step


def unpinned(workflow):
    """The actions that are not pinned by a commit, with its version behind it."""
    used = re.findall(r"^\s*(?:- )?uses: *(.*)$", workflow, re.M)
    return [action for action in used if not PINNED.fullmatch(action)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path):
    assert unpinned(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "action", [CHECKOUT.partition(" #")[0], "actions/checkout@v7.0.1 # v7.0.1", CHECKOUT[:-4]]
)
def test_actions_that_are_not_pinned_are_seen(action):
    assert unpinned(SOUND.replace(CHECKOUT, action)) == [action]


def test_one_action_has_one_version():
    pins = {use for path in WORKFLOWS for use in re.findall(r"uses: (.*)", path.read_text("utf-8"))}
    assert len(pins) == len({pin.partition("@")[0] for pin in pins})


RIGHTS = {
    "actions/checkout": {"contents": "read"},
    "actions/deploy-pages": {"pages": "write", "id-token": "write"},
}


def loose(workflow):
    """The jobs with other rights than their steps need, or with no end in sight."""
    workflow = yaml.safe_load(workflow)
    found = [] if workflow.get("permissions") == {} else ["all"]
    for name, job in workflow["jobs"].items():
        used = {step.get("uses", "").partition("@")[0] for step in job["steps"]}
        needed = {right: kind for use in used for right, kind in RIGHTS.get(use, {}).items()}
        if job.get("permissions", {}) != needed or job.get("timeout-minutes", 360) > 120:
            found.append(name)
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_jobs_have_least_rights_and_an_end(path):
    assert loose(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("contents: read", "contents: write", "linux"),
        ("    timeout-minutes: 60\n", "", "gpu"),
        ("      pages: write", "      pages: write\n      contents: read", "publish"),
        ("permissions: {}", "permissions: read-all", "all"),
    ],
)
def test_loose_jobs_are_seen(old, new, where):
    text = TESTS.read_text(encoding="utf-8")
    assert old in text and where in loose(text.replace(old, new))


def test_no_secret_is_used_and_no_trigger_hands_one_to_a_fork():
    for path in WORKFLOWS:
        text = path.read_text(encoding="utf-8")
        assert not re.search("secrets|pull_request_target|workflow_run", text)


def test_label_of_the_gpu_runner_is_said_once():
    text = "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    assert re.findall(r"vars\.\w+", text) == ["vars.GPU_RUNNER"]
    assert "self-hosted" not in text


OWN, FORK, GONE = "me/book", "you/book", ""  # where a pull request comes from
CHOICES = {
    ("", "push", ""): "GPU_RUNNER is not set",
    ("h100", "push", ""): None,
    ("h100", "pull_request", OWN): None,
    ("h100", "pull_request", FORK): "a fork",
    ("h100", "pull_request", GONE): "a fork",
}


@pytest.mark.parametrize(("label", "event", "source"), CHOICES)
def test_gpu_job_runs_where_there_is_a_label_and_says_why_not(tmp_path, label, event, source):
    """The step itself, run as the runner runs it: its words, and what the job is said."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    step = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["jobs"]["gpu-runner"]["steps"][0]
    assert step["env"].keys() == {"LABEL", "EVENT", "FROM"}
    said = tmp_path / "output"
    said.touch()
    given = {"LABEL": label, "EVENT": event, "FROM": source, "GITHUB_REPOSITORY": OWN}
    run = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env=os.environ | given | {"GITHUB_OUTPUT": str(said)},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = CHOICES[label, event, source]
    assert said.read_text(encoding="utf-8") == ("" if reason else f"label={label}\n")
    assert reason in run.stdout if reason else run.stdout == ""


def targets(makefile):
    """The targets that a Makefile declares."""
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.M))


def called(workflow):
    """The targets that a workflow's commands ask `make` for."""
    commands = "\n".join(step.get("run", "") for _, step in steps(workflow))
    calls = re.findall(r"^(?:docker exec colab )?make ([^|>]*?)(?: 2>.*)?$", commands, re.M)
    return {word for call in calls for word in call.split() if "=" not in word}


def test_workflows_call_targets_that_the_makefile_has():
    wanted = set().union(*(called(path.read_text(encoding="utf-8")) for path in WORKFLOWS))
    assert {"test", "book", "record", "gpu-test", "cold"} <= wanted
    assert wanted <= targets((ROOT / "Makefile").read_text(encoding="utf-8"))


def test_target_that_is_not_there_is_seen():
    workflow = SOUND.replace('echo "$REF"', "make PYTHON=python tests 2>&1 | tee log")
    assert called(workflow) == {"tests"}
    assert "tests" not in targets((ROOT / "Makefile").read_text(encoding="utf-8"))


def jobs(text=None):
    """The jobs of the workflow that tests and publishes, by name."""
    return yaml.safe_load(text or TESTS.read_text(encoding="utf-8"))["jobs"]


def test_site_is_published_from_main_when_linux_passes_and_waits_for_nothing_else():
    triggers = yaml.safe_load(TESTS.read_text(encoding="utf-8"))[True]  # how YAML reads `on`
    assert triggers["push"] == {"branches": ["main"]}
    publish, site, linux = jobs()["publish"], jobs()["site"], jobs()["linux"]
    assert (publish["needs"], publish["if"]) == (["linux", "site"], "github.event_name == 'push'")
    assert "needs" not in site and "needs" not in linux
    assert linux["runs-on"] == "ubuntu-latest"
    assert all("continue-on-error" not in part for part in (linux, site, *linux["steps"]))


def test_every_system_runs_the_same_command_and_keeps_what_a_failure_left():
    assert jobs()["linux"]["steps"] == jobs()["others"]["steps"]
    assert {"macos-latest", "windows-latest"} == {*jobs()["others"]["strategy"]["matrix"]["system"]}
    for name in ("linux", "site"):
        *_, last = jobs()[name]["steps"]
        assert last["if"] == "failure()" and last["with"]["path"] == "_build"


def test_downloads_of_packages_are_kept_from_run_to_run():
    for path in WORKFLOWS:
        for _, step in steps(path.read_text(encoding="utf-8")):
            if step.get("uses", "").startswith("actions/setup-python@"):
                assert step["with"]["cache"] == "pip"
                assert list(ROOT.glob(step["with"]["cache-dependency-path"]))


def refuses(text, folder):
    """Whether the site job stops at the files of `folder` before it hands on the site."""
    commands = [step.get("run") or step["uses"] for step in jobs(text)["site"]["steps"]]
    built = next(number for number, each in enumerate(commands) if re.search(r"^make .*book", each))
    handed = next(number for number, each in enumerate(commands) if "upload-" in each)
    for command in commands[built + 1 : handed]:
        run = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder)
        if run.returncode:
            return True
    return False


@pytest.fixture
def checkout(tmp_path):
    """A clean checkout of one file."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "one.ipynb").write_text("{}")
    (tmp_path / ".gitignore").write_text("_build/\n")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "One"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "page.html").touch()
    return tmp_path


@pytest.mark.parametrize("name", ["one", "two"])
def test_site_job_refuses_outputs_that_are_changed_or_untracked(checkout, name):
    assert not refuses(None, checkout)
    (checkout / "outputs" / f"{name}.ipynb").write_text('{"cells": []}')
    assert refuses(None, checkout)


def test_site_job_without_that_check_is_seen(checkout):
    (checkout / "outputs" / "two.ipynb").touch()
    text = TESTS.read_text(encoding="utf-8")
    check = re.search(r"      - name: Refuse outputs.*?(?=      - name)", text, re.S)[0]
    assert not refuses(text.replace(check, ""), checkout)


def test_a_pull_request_gets_the_site():
    (attached,) = [step for step in jobs()["site"]["steps"] if "pull_request" in step.get("if", "")]
    assert attached["uses"].startswith("actions/upload-artifact@")
    assert attached["with"]["path"] == "_build/html"


def test_colab_run_installs_nothing_and_looks_for_another_torch():
    workflow = (ROOT / ".github/workflows/colab.yml").read_text(encoding="utf-8")
    commands = [step["run"] for _, step in steps(workflow) if "run" in step]
    assert not re.search(r"pip install|requirements|\.venv|make (?!PYTHON=python3 cold)", workflow)
    assert "torch" in commands[-1] and commands[-1].rstrip().endswith("diff held.txt -")
