"""The workflows of `.github/`: actionlint and zizmor find nothing, and a few rules of our own.

Both linters run without a network: zizmor is a wheel, actionlint lies in `tests/actionlint/`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml
from helpers import ROOT
from playwright._impl._driver import compute_driver_executable
from playwright._impl._errors import Error as NoNode

WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
TESTS = ROOT / ".github" / "workflows" / "tests.yml"
ACTIONLINT = ROOT / "tests" / "actionlint"
ACTIONLINT_DIGEST = "8bb4921f9b777e95e583e377622e2aa5272d8efdd9e6aa04111ea3a2a1681d7f"
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
INJECTION = ('"$REF"', '"${{ github.event.issue.title }}"')
FAULTS_FOR_ACTIONLINT = {
    "expression": INJECTION,
    "syntax-check": ("runs-on: ubuntu-latest", "runs_on: ubuntu-latest"),
    "runner-label": ("ubuntu-latest", "ubuntu-lastest"),
    "permissions": ("permissions: {}", "permissions: {content: read}"),
}
FAULTS_FOR_ZIZMOR = {
    "template-injection": INJECTION,
    "unpinned-uses": (CHECKOUT, "actions/checkout@v7"),
    "artipacked": ("persist-credentials: false", "fetch-depth: 1"),
    "excessive-permissions": ("permissions: {}", "permissions: write-all"),
    "dangerous-triggers": ("on: push", "on: pull_request_target"),
}


def node():
    """The Node.js in Playwright's wheel."""
    try:
        return compute_driver_executable()[0]
    except NoNode as error:
        pytest.skip(f"actionlint does not run here: {error}")


def actionlint(*workflows):
    """What actionlint finds in files: a list of {file, line, kind, message}."""
    run = subprocess.run(
        [node(), ACTIONLINT / "lint.mjs", *workflows], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def zizmor(*workflows):
    """What zizmor finds in files, short of false alarms: a list of {ident, ...}."""
    program = Path(sysconfig.get_path("scripts"), "zizmor")
    options = ["--offline", "--quiet", "--no-exit-codes", "--persona=pedantic", "--format=json"]
    run = subprocess.run(
        [program, *options, "--strict-collection", *workflows],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def faulty(tmp_path, old, new):
    """A sound workflow in which `new` stands for `old`."""
    assert old in SOUND
    path = tmp_path / "faulty.yml"
    path.write_text(SOUND.replace(old, new), encoding="utf-8")
    return path


def steps(workflow):
    """(job, step) for every step of a workflow's text."""
    for job in yaml.safe_load(workflow)["jobs"].values():
        for step in job["steps"]:
            yield job, step


def test_actionlint_finds_nothing():
    assert actionlint(*WORKFLOWS) == []


def test_zizmor_finds_nothing():
    assert zizmor(*WORKFLOWS) == []


def test_sound_workflow_passes_both(tmp_path):
    path = faulty(tmp_path, "push", "push")
    assert actionlint(path) == [] and zizmor(path) == []


@pytest.mark.parametrize("kind", FAULTS_FOR_ACTIONLINT)
def test_actionlint_refuses(tmp_path, kind):
    found = actionlint(faulty(tmp_path, *FAULTS_FOR_ACTIONLINT[kind]))
    assert kind in {finding["kind"] for finding in found}


@pytest.mark.parametrize("ident", FAULTS_FOR_ZIZMOR)
def test_zizmor_refuses(tmp_path, ident):
    found = zizmor(faulty(tmp_path, *FAULTS_FOR_ZIZMOR[ident]))
    assert ident in {finding["ident"] for finding in found}


def test_actionlint_is_the_published_build():
    """Inside it is `main.wasm` of the package that its README names, byte for byte."""
    unpack = "process.stdin.pipe(zlib.createBrotliDecompress()).pipe(process.stdout)"
    with (ACTIONLINT / "actionlint.wasm.br").open("rb") as packed:
        run = subprocess.run([node(), "-e", unpack], stdin=packed, capture_output=True, check=True)
    assert hashlib.sha256(run.stdout).hexdigest() == ACTIONLINT_DIGEST


def unpinned(workflow):
    """The actions that are not pinned by a commit, with its version behind it."""
    used = re.findall(r"^\s*(?:- )?uses: *(.*)$", workflow, re.M)
    return [action for action in used if not PINNED.fullmatch(action)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path):
    text = path.read_text(encoding="utf-8")
    assert unpinned(text) == []
    assert text.count("uses:") == sum("uses" in step for _, step in steps(text))


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
        ("contents: read", "contents: write", "cpu"),
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
    """The step itself, run as the runner runs it: its words, and what the job is told."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this machine")
    step = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["jobs"]["gpu-runner"]["steps"][0]
    assert step["env"].keys() == {"LABEL", "EVENT", "FROM"}
    told = tmp_path / "output"
    told.touch()
    given = {"LABEL": label, "EVENT": event, "FROM": source, "GITHUB_REPOSITORY": OWN}
    run = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        env=os.environ | given | {"GITHUB_OUTPUT": str(told)},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = CHOICES[label, event, source]
    assert told.read_text(encoding="utf-8") == ("" if reason else f"label={label}\n")
    assert reason in run.stdout if reason else run.stdout == ""


def targets(makefile):
    """The targets that a Makefile declares."""
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, re.M))


def called(workflow):
    """The targets that a workflow's commands ask `make` for."""
    commands = "\n".join(step.get("run", "") for _, step in steps(workflow))
    calls = re.findall(r"^(?:docker exec colab )?make (.*)$", commands, re.M)
    return {word for call in calls for word in call.split() if "=" not in word}


def test_workflows_call_targets_that_the_makefile_has():
    wanted = set().union(*(called(path.read_text(encoding="utf-8")) for path in WORKFLOWS))
    assert {"test", "book", "record", "gpu-test", "cold"} <= wanted
    assert wanted <= targets((ROOT / "Makefile").read_text(encoding="utf-8"))


def test_target_that_is_not_there_is_seen():
    workflow = SOUND.replace('echo "$REF"', "make PYTHON=python tests")
    assert called(workflow) == {"tests"}
    assert "tests" not in targets((ROOT / "Makefile").read_text(encoding="utf-8"))


def test_site_is_published_from_main_only_and_after_the_tests():
    workflow = yaml.safe_load(TESTS.read_text(encoding="utf-8"))
    jobs, triggers = workflow["jobs"], workflow[True]  # YAML reads the key `on` as true
    assert triggers["push"] == {"branches": ["main"]}
    assert jobs["publish"]["needs"] == "site" and jobs["site"]["needs"] == ["cpu", "gpu"]
    assert "!failure()" in jobs["site"]["if"] and "'push'" in jobs["site"]["if"]


def test_colab_run_installs_nothing_and_looks_for_another_torch():
    workflow = (ROOT / ".github/workflows/colab.yml").read_text(encoding="utf-8")
    commands = [step["run"] for _, step in steps(workflow) if "run" in step]
    assert not re.search(r"pip install|requirements|\.venv|make (?!PYTHON=python3 cold)", workflow)
    assert "torch" in commands[-1] and commands[-1].rstrip().endswith("diff held.txt -")
