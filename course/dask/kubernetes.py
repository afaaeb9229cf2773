"""Writes `kubernetes.yaml` beside it: a Dask cluster for the operator of Dask on Kubernetes.

    pip install dask-kubernetes==2026.3.0
    python course/dask/kubernetes.py IMAGE [WORKERS] > course/dask/kubernetes.yaml

IMAGE is built by `docker build --file course/dask/Dockerfile .` and pushed where the cluster finds
it.
"""

import sys

import yaml
from dask_kubernetes.operator import make_cluster_spec

NAME = "grading"
RESOURCES = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "4Gi"}}
SCHEDULER = ["dask", "scheduler", "--host", "0.0.0.0"]  # `dask-scheduler` is no command any more
WORKER = ["dask", "worker", "--nthreads", "1", "--local-directory", "/tmp"]
# What a submission may not have, its worker need not have either; sandboxes are made without it.
POD = {"automountServiceAccountToken": False, "enableServiceLinks": False}
CONTAINER = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def make_spec(image: str, workers: int) -> dict:
    """The custom resource `DaskCluster`."""
    spec = make_cluster_spec(
        name=NAME, image=image, n_workers=workers, resources=RESOURCES, worker_command=WORKER
    )
    spec["spec"]["scheduler"]["spec"]["containers"][0]["args"] = SCHEDULER
    for part in (spec["spec"]["worker"]["spec"], spec["spec"]["scheduler"]["spec"]):
        part |= POD
        for container in part["containers"]:
            container["securityContext"] = CONTAINER
            container["imagePullPolicy"] = "IfNotPresent"
            container["env"] = [{"name": "HOME", "value": "/tmp"}]
    return spec


if __name__ == "__main__":
    image, workers = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4
    yaml.Dumper.ignore_aliases = lambda *_: True
    print(yaml.dump(make_spec(image, workers), sort_keys=False), end="")
