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
CLAIM, JOB = yaml.safe_load_all((SERVERS / "pytorchjob.yaml").read_text("utf-8"))
WORKER = JOB["spec"]["pytorchReplicaSpecs"]["Worker"]
[CONTAINER] = WORKER["template"]["spec"]["containers"]
SCHEMA = HERE / "pytorchjob.schema.yaml"
SBATCH_OPTIONS = HERE / "sbatch-options.txt"

# Become another program, which can then be found by the mark of its job.
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


def path_with(*folders):
    """Return a PATH that finds first what is in `folders`, and then torchrun."""
    scripts = Path(sys.executable).parent
    return os.pathsep.join([*map(str, folders), str(scripts), os.environ["PATH"]])


def write_program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_bash_can_read_the_batch_script():
    run = subprocess.run(["bash", "-n", SBATCH], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""


def known_options():
    """Return the options of sbatch, and for each whether it may stand with a value."""
    options = {}
    known = SBATCH_OPTIONS.read_text(encoding="utf-8")
    for name, sign in re.findall(r"^([a-z-]+)(.*)$", known, re.M):
        options[name] = {"": (False,), "=": (True,), "[=]": (False, True)}[sign]
    return options


def test_slurm_can_read_the_batch_script():
    # Slurm reads the lines before the first command.
    head = re.match(r"(?:#.*\n|\n)*", SBATCH.read_text(encoding="utf-8"))[0]
    known = known_options()
    for name, value in re.findall(r"^#SBATCH --([a-z-]+)(=.+)?", head, re.M):
        assert bool(value) in known[name], name
    options = re.findall(r"--\S+", head)
    for option in (
        "--nodes=2",
        "--ntasks-per-node=1",
        "--requeue",
        "--signal=B:USR1@120",
    ):
        assert option in options


@pytest.mark.full
def test_slurm_starts_train_on_two_servers(job, undisturbed):
    shutil.copy(TRAIN, job.folder)
    bin = job.folder / "bin"
    write_program(bin / "srun", SRUN)
    write_program(bin / "scontrol", SCONTROL)
    # The script makes a port of it.
    id = free_port()
    variables = {
        "SLURM_JOB_ID": id,
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_JOB_NUM_NODES": 2,
        "SLURM_GPUS_ON_NODE": 1,
        "SLURM_CPUS_PER_TASK": 2,
        "ENVIRONMENT": sys.prefix,
    }
    job.start("-c", EXEC, "bash", SBATCH, PATH=path_with(bin), **variables)
    wait(lambda: epochs(job.log()), LONGEST, job.log)
    # Slurm tells the script that its time is nearly over.
    job.agents["a"].send_signal(signal.SIGUSR1)
    assert epochs(job.succeed()) == undisturbed.epochs
    assert (job.folder / "asked").read_text() == f"requeue {id}\n"


def test_the_kubernetes_job_keeps_to_its_schema():
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(JOB)


def test_the_kubernetes_job_mounts_what_is_there():
    pod = WORKER["template"]["spec"]
    assert CONTAINER["name"] == "pytorch"
    mounts = {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    claim = {"persistentVolumeClaim": {"claimName": CLAIM["metadata"]["name"]}}
    assert any(claim.items() <= volume.items() for volume in pod["volumes"])
    # Both pods write.
    assert CLAIM["spec"]["accessModes"] == ["ReadWriteMany"]
    gpus = CONTAINER["resources"]["limits"]["nvidia.com/gpu"]
    assert JOB["spec"]["nprocPerNode"] == str(gpus)


def set_by_the_operator(port):
    """Return the environment that the operator gives each pod: `elastic.go` of release 1.9."""
    policy = JOB["spec"]["elasticPolicy"]
    return {
        "PET_RDZV_BACKEND": policy["rdzvBackend"],
        "PET_RDZV_ENDPOINT": f"localhost:{port}",  # there: digits-worker-0:23456
        "PET_RDZV_ID": policy["rdzvId"],
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}",
        "PET_MAX_RESTARTS": policy["maxRestarts"],
        "PET_NPROC_PER_NODE": JOB["spec"]["nprocPerNode"],
    }


def command_in(folder):
    """Return the command of a container, as if `folder` had been mounted in it."""
    [line] = CONTAINER["args"]
    mounted = {"train": folder, "checkpoints": folder / "checkpoints"}
    for mount in CONTAINER["volumeMounts"]:
        if mount["name"] in mounted:
            place = mounted[mount["name"]]
            line = line.replace(f" {mount['mountPath']}", f" {place}")
    return [*CONTAINER["command"], line]


@pytest.mark.full
def test_kubernetes_starts_train_on_two_servers(job, undisturbed):
    shutil.copy(TRAIN, job.folder)
    command = command_in(job.folder)
    # A pod that is made again installs nothing.
    assert "pip" not in command[-1]
    assert WORKER["replicas"] == 2
    variables = set_by_the_operator(free_port())
    for pod in ("a", "b"):
        job.start("-c", EXEC, *command, server=pod, PATH=path_with(), **variables)
    assert job.wait("a") == 0, job.log("a")
    assert job.wait("b") == 0, job.log("b")

    # Only rank 0 prints.
    logs = [job.log("a"), job.log("b")]
    [log] = [log for log in logs if epochs(log)]
    assert epochs(log) == undisturbed.epochs
    job.assert_gone()
