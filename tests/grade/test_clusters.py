"""The files for clusters: what they ask for is what a worker needs."""

import signal
import subprocess
import sys

import pytest
import yaml
from distributed import Client

from tools.root import ROOT

DASK = ROOT / "course" / "dask"


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="grading needs Linux")
def test_local_cluster_says_where_it_is_and_ends():
    command = [sys.executable, str(DASK / "local.py"), "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split("DASK=")[1].split()[0]
            with Client(address, set_as_default=False) as client:
                client.wait_for_workers(1)
                assert list(client.nthreads().values()) == [1]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_kubernetes_gives_each_worker_one_thread_and_no_rights():
    spec = yaml.safe_load((DASK / "kubernetes.yaml").read_text())["spec"]
    (worker,) = spec["worker"]["spec"]["containers"]
    assert worker["args"][worker["args"].index("--nthreads") + 1] == "1"
    assert spec["scheduler"]["service"]["type"] == "ClusterIP"
    for part in ("worker", "scheduler"):
        pod = spec[part]["spec"]
        (container,) = pod["containers"]
        assert pod["automountServiceAccountToken"] is False
        assert container["args"][:2] == ["dask", part]
        context = container["securityContext"]
        assert context["runAsNonRoot"] and not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]} and "privileged" not in context
