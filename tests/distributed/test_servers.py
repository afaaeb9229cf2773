"""The files in `course/servers/` start train.py on two servers as they say."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from launch import HERE, LONGEST, TRAIN, epochs, free_port, wait

SERVERS = HERE.parents[1] / "course" / "servers"
SBATCH = SERVERS / "slurm.sbatch"
CLAIM, JOB = yaml.safe_load_all(
    (SERVERS / "pytorchjob.yaml").read_text(encoding="utf-8")
)
WORKER = JOB["spec"]["pytorchReplicaSpecs"]["Worker"]
(CONTAINER,) = WORKER["template"]["spec"]["containers"]
SCHEMA = yaml.safe_load((HERE / "pytorchjob.schema.yaml").read_text(encoding="utf-8"))
VALUES = {
    "": (False,),
    "=": (True,),
    "[=]": (False, True),
}  # may an option have a value?
KNOWN = (HERE / "sbatch-options.txt").read_text(encoding="utf-8")
OPTIONS = {
    name: VALUES[sign] for name, sign in re.findall(r"^([a-z-]+)(.*)$", KNOWN, re.M)
}

EXEC = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
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
test "$*" = "show hostnames node[1-2]" && printf 'localhost\\nlocalhost\\n' || echo "$*" >asked
"""


def stand_in(folder, name, text):
    """An executable of that name; returns the PATH that finds it first."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    scripts = Path(sys.executable).parent  # torchrun's
    return os.pathsep.join([str(folder), str(scripts), os.environ["PATH"]])


def test_the_batch_script_is_one_that_bash_and_slurm_can_read():
    checked = subprocess.run(["bash", "-n", SBATCH], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    # Slurm reads the lines before the first command.
    head = re.match(r"(?:#.*\n|\n)*", SBATCH.read_text(encoding="utf-8"))[0]
    asked = re.findall(r"^#SBATCH --([a-z-]+)(=.+)?", head, re.M)
    assert [
        name for name, value in asked if bool(value) not in OPTIONS.get(name, ())
    ] == []
    needed = "--nodes=2 --ntasks-per-node=1 --requeue --signal=B:USR1@120"
    assert {*needed.split()} <= {*re.findall(r"--\S+", head)}


@pytest.mark.full
def test_slurm_starts_train_on_two_servers(job, undisturbed):
    shutil.copy(TRAIN, job.folder)
    stand_in(job.folder / "bin", "srun", SRUN)
    path = stand_in(job.folder / "bin", "scontrol", SCONTROL)
    variables = {
        "SLURM_JOB_ID": free_port(),  # of which the script makes a port
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": 2,
        "SLURM_GPUS_ON_NODE": 1,
        "SLURM_CPUS_PER_TASK": 2,
        "ENVIRONMENT": sys.prefix,
    }
    job.start("-c", EXEC, "bash", SBATCH, PATH=path, **variables)
    wait(lambda: epochs(job.said()), LONGEST, job.said)
    job.agents["a"].send_signal(signal.SIGUSR1)  # its time is nearly over
    assert epochs(job.succeed()) == undisturbed.epochs
    assert (
        job.folder / "asked"
    ).read_text() == f"requeue {variables['SLURM_JOB_ID']}\n"


def test_the_kubernetes_job_keeps_to_its_schema_and_mounts_what_is_there():
    jsonschema.Draft202012Validator(SCHEMA).validate(JOB)
    pod = WORKER["template"]["spec"]
    assert CONTAINER["name"] == "pytorch"
    mounts = {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    claim = {"persistentVolumeClaim": {"claimName": CLAIM["metadata"]["name"]}}
    assert any(claim.items() <= volume.items() for volume in pod["volumes"])
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]  # both pods write
    gpus = CONTAINER["resources"]["limits"]["nvidia.com/gpu"]
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
def test_kubernetes_starts_train_on_two_servers(job, undisturbed):
    shutil.copy(TRAIN, job.folder)
    (line,) = CONTAINER["args"]
    assert "pip" not in line  # a pod that is made again installs nothing
    path = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ["PATH"]]
    )  # torchrun's
    here = {"train": job.folder, "checkpoints": job.folder / "checkpoints"}
    for mount in CONTAINER["volumeMounts"]:
        if mount["name"] in here:
            line = line.replace(f" {mount['mountPath']}", f" {here[mount['name']]}")
    told = told_by_the_operator(free_port())
    for pod in "ab"[: WORKER["replicas"]]:
        job.start(
            "-c", EXEC, *CONTAINER["command"], line, server=pod, PATH=path, **told
        )
    ends = {pod: job.end(pod) for pod in job.agents}
    assert [code for code, _ in ends.values()] == [0, 0], ends
    (spoke,) = [said for _, said in ends.values() if epochs(said)]
    assert epochs(spoke) == undisturbed.epochs
    job.assert_gone()
