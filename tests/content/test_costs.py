"""Modelled time knows every operator that the pages without exercises call.

Those with exercises are executed once for this and for the exercises: `test_solutions.py`.
"""

import ast

import pytest
from helpers import CHAPTERS, ROOT, WITH_EXERCISES, code, notebook, read
from nbclient import NotebookClient
from operators import LISTEN, TELL

from tools.book.chapters import SETUP, TIMES, Chapter
from tools.book.notebooks import tags
from tools.rules.symptoms import symptoms_of


def told(*cells, folder):
    """(kernels, operators without a rule) that cells run on simulated GPUs."""
    client = NotebookClient(
        notebook(code("listen", LISTEN), *cells, code("tell", TELL)),
        kernel_name="simulated",
        shutdown_kernel="immediate",
        iopub_timeout=60,
        resources={"metadata": {"path": str(folder)}},
    )
    (answer,) = client.execute().cells[-1].outputs
    return ast.literal_eval(answer.data["text/plain"])


@pytest.mark.parametrize("name", sorted({*CHAPTERS} - {*WITH_EXERCISES}))
def test_every_operator_of_a_chapter_has_a_rule(name, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    chapter = Chapter(name, read(ROOT / "notebooks" / f"{name}.ipynb"))
    cells = [each for each in chapter.code_cells if SETUP not in tags(each)]
    if chapter.lists_symptoms:  # an error may be any operator's; what is timed has a rule
        both = [(each.shown, each.cured) for each in symptoms_of(chapter)]
        untimed = [pair for pair in both if not any(TIMES in tags(cell) for cell in pair)]
        cells = [cell for cell in cells if not any(cell in pair for pair in untimed)]
    kernels, unknown = told(*cells, folder=tmp_path)
    assert kernels > 0 and unknown == []


def test_an_operator_without_a_rule_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    cell = code("rare", "import torch\ntorch.linalg.cholesky(torch.eye(2))")
    kernels, unknown = told(cell, folder=tmp_path)
    assert kernels > 0 and unknown == ["aten.linalg_cholesky_ex.default"]
