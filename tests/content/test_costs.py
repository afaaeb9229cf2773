"""Modelled time knows every operator that the chapters call."""

import ast

import pytest
from helpers import CHAPTERS, ROOT, code, notebook, read
from nbclient import NotebookClient

from tools.source.chapters import SETUP
from tools.source.notebooks import code_cells, tags

LISTEN = """
from cudasim.clock.costs import without_rule
from cudasim.clock.estimate import Estimate
from cudasim.timing.sheets import find_sheet, host_sheet
listening = Estimate(find_sheet('T4'), host_sheet())
listening.__enter__()
"""
TELL = "listening.__exit__(None, None, None)\nlen(listening.works), without_rule()"


def told(*cells, folder):
    """(kernels, operators without a rule) that cells run on simulated GPUs."""
    client = NotebookClient(
        notebook(code("listen", LISTEN), *cells, code("tell", TELL)),
        kernel_name="simulated",
        shutdown_kernel="immediate",
        resources={"metadata": {"path": str(folder)}},
    )
    (answer,) = client.execute().cells[-1].outputs
    return ast.literal_eval(answer.data["text/plain"])


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_operator_of_a_chapter_has_a_rule(name, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    chapter = read(ROOT / "notebooks" / f"{name}.ipynb")
    cells = [each for each in code_cells(chapter) if SETUP not in tags(each)]
    kernels, unknown = told(*cells, folder=tmp_path)
    assert kernels > 0 and unknown == []


def test_an_operator_without_a_rule_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    cell = code("rare", "import torch\ntorch.linalg.cholesky(torch.eye(2))")
    kernels, unknown = told(cell, folder=tmp_path)
    assert kernels > 0 and unknown == ["aten.linalg_cholesky_ex.default"]
