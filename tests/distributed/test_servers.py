"""`servers/`: the files that start train.py on two servers are right, and do what they say."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from launch import HERE, TRAIN, Job, epochs, free_port

SERVERS = HERE.parents[1] / "servers"
SBATCH = SERVERS / "slurm.sbatch"
JOB = yaml.safe_load((SERVERS / "pytorchjob.yaml").read_text(encoding="utf-8"))
SCHEMA = yaml.safe_load((HERE / "pytorchjob.schema.yaml").read_text(encoding="utf-8"))
OPTIONS = {  # name: "=", "[=]" or ""
    re.match(r"[a-z-]+", line)[0]: line[re.match(r"[a-z-]+", line).end() :]
    for line in (HERE / "sbatch-options.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
}

SRUN = """\
#!/usr/bin/env python3
# Stands in for srun: one task on each of the nodes, ends with the first exit code that is not 0.
import os, subprocess, sys
nodes = range(int(os.environ["SLURM_JOB_NUM_NODES"]))
tasks = [subprocess.Popen(sys.argv[1:], env=dict(os.environ, SLURM_NODEID=str(n))) for n in nodes]
sys.exit(max([task.wait() for task in tasks], key=abs))
"""
SCONTROL = """\
#!/bin/sh
# Stands in for 'scontrol show hostnames node[1-2]': both nodes are this machine.
test "$*" = "show hostnames node[1-2]" && printf 'localhost\\nlocalhost\\n'
"""


def directives(script):
    """{name: value} of the `#SBATCH` lines that Slurm reads: those before the first command."""
    lines = itertools.takewhile(lambda line: line.startswith("#") or not line, script.splitlines())
    said = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH ")]
    return {name: value for name, _, value in (line.partition("=") for line in said)}


def stand_in(folder, name, text):
    """An executable of that name; returns the PATH that finds it first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    scripts = Path(sys.executable).parent  # torchrun's
    return os.pathsep.join([str(folder), str(scripts), os.environ["PATH"]])


def test_the_batch_script_is_one_that_bash_and_slurm_can_read():
    checked = subprocess.run(["bash", "-n", SBATCH], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    asked = directives(SBATCH.read_text(encoding="utf-8"))
    assert [name for name in asked if name not in OPTIONS] == []
    assert [name for name, value in asked.items() if not value and OPTIONS[name] == "="] == []
    assert [name for name, value in asked.items() if value and not OPTIONS[name]] == []
    assert asked["nodes"] == "2" and asked["ntasks-per-node"] == "1" and "requeue" in asked


@pytest.mark.full
def test_slurm_starts_train_on_two_servers(tmp_path):
    shutil.copy(TRAIN, tmp_path)
    job = Job(tmp_path)
    stand_in(tmp_path / "bin", "srun", SRUN)
    path = stand_in(tmp_path / "bin", "scontrol", SCONTROL)
    variables = {
        "SLURM_JOB_ID": free_port(),  # of which the script makes a port
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": 2,
        "SLURM_GPUS_ON_NODE": 1,
        "SLURM_CPUS_PER_TASK": 2,
    }
    run = "import os, sys; os.execvp('bash', ['bash', sys.argv[1]])"
    job.start("-c", run, SBATCH, PATH=path, **variables)
    assert sorted(epochs(job.succeed())) == [0, 1, 2, 3]


def test_the_kubernetes_job_keeps_to_its_schema():
    jsonschema.Draft202012Validator(SCHEMA).validate(JOB)


def test_what_the_pod_mounts_is_there():
    pod = JOB["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "pytorch"
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    gpus = container["resources"]["limits"]["nvidia.com/gpu"]
    assert JOB["spec"]["nprocPerNode"] == str(gpus)


def told_by_the_operator(port):
    """The environment that the operator gives to each pod: `elastic.go` of release 1.9."""
    policy = JOB["spec"]["elasticPolicy"]
    return {
        "PET_RDZV_BACKEND": policy["rdzvBackend"],
        "PET_RDZV_ENDPOINT": f"localhost:{port}",  # there: digits-worker-0:23456
        "PET_RDZV_ID": policy["rdzvId"],
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
        "PET_MAX_RESTARTS": policy["maxRestarts"],
        "PET_NPROC_PER_NODE": JOB["spec"]["nprocPerNode"],
    }


@pytest.mark.full
def test_kubernetes_starts_train_on_two_servers(tmp_path):
    shutil.copy(TRAIN, tmp_path)
    job = Job(tmp_path)
    path = stand_in(tmp_path / "bin", "pip", "#!/bin/sh\n")
    worker = JOB["spec"]["pytorchReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    (line,) = container["args"]
    for mount in container["volumeMounts"]:
        there = {"train": tmp_path, "checkpoints": tmp_path / "checkpoints"}.get(mount["name"])
        line = line.replace(f" {mount['mountPath']}", f" {there}") if there else line
    run = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    told = told_by_the_operator(free_port())
    for pod in "ab"[: worker["replicas"]]:
        job.start("-c", run, *container["command"], line, server=pod, PATH=path, **told)
    ends = {pod: job.end(pod) for pod in job.agents}
    assert [code for code, _ in ends.values()] == [0, 0], ends
    spoke = [said for _, said in ends.values() if epochs(said)]
    assert len(spoke) == 1 and sorted(epochs(spoke[0])) == [0, 1, 2, 3]
    job.assert_gone()
