"""The files for clusters and hubs, which nothing here starts: they fit together."""

import re

import yaml

from tools.root import ROOT

DASK = ROOT / "course" / "dask"


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


def test_the_image_is_the_books_python_with_its_pins_and_the_one_that_the_hub_is_given():
    said = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert re.search(rf"^FROM quay\.io/jupyter/minimal-notebook:{python}$", said, re.M)
    named = re.findall(r"--requirement (\S+)", said)
    assert named == ["binder/reader.txt", "requirements-no-deps.txt"]
    assert all((ROOT / name).is_file() for name in named) and "./cudasim" in said
    folder = ROOT / "course" / "jupyterhub"
    values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
    image = values["singleuser"]["image"]
    words = (folder / "README.md").read_text(encoding="utf-8")
    assert words.count(f"{image['name']}:{image['tag']}") == 3
