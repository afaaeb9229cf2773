"""Notebooks that went through a service give the cells that were handed out.

Each function does to a file what the service does when it saves one:

- Colab writes format 4.0 without cell ids, its own `id`, `outputId`, `colab` and `executionInfo`
  in a cell's metadata, and lists of lines (published notebooks that Colab saved). Ids are kept in
  files of format 4.5.
- JupyterLab (Studio Lab runs it) and Notebook 7 write through nbformat, which splits lines, add
  `execution` times, and `editable`, `slideshow` and `tags` once a cell's properties are touched.
- VS Code sorts keys, adds `vscode`, may lack ids, and ends lines as Windows does in a cell's text
  until it is saved (`extensions/ipynb/src/serializers.ts` in microsoft/vscode).
"""

import copy
import json

import nbformat
import pytest
from classroom import RIGHT, SMALL, code, edition, place

from tools.grade.intake import read_submission
from tools.grade.splice import splice


def lines(source):
    return source.splitlines(keepends=True)


def colab(notebook, ids=False):
    notebook["nbformat_minor"] = 5 if ids else 0
    notebook["metadata"] |= {
        "colab": {"provenance": [], "gpuType": "T4"},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
        "accelerator": "GPU",
    }
    for number, cell in enumerate(notebook["cells"]):
        if not ids:
            del cell["id"]
        cell["metadata"] |= {"id": f"2DKG-nQZIz{number:02}"}
        if cell["cell_type"] == "code":
            user = {"displayName": "A", "userId": "0615"}
            told = {"elapsed": 3, "status": "ok", "timestamp": 1, "user": user, "user_tz": 300}
            cell["metadata"] |= {"outputId": "d2f5c8dc-ef18", "executionInfo": told}
            cell["metadata"]["colab"] = {"base_uri": "https://localhost:8080/", "height": 54}
        cell["source"] = lines(cell["source"])


def colab_with_ids(notebook):
    colab(notebook, ids=True)


def jupyterlab(notebook):
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook["metadata"]["kernelspec"] = kernel
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] |= {"editable": True, "slideshow": {"slide_type": ""}}
        cell["metadata"].setdefault("tags", [])
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["metadata"]["execution"] = {"iopub.execute_input": "2026-03-01T10:00:00Z"}
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["hello\n"]}]
        cell["source"] = lines(cell["source"])


def notebook_7(notebook):
    jupyterlab(notebook)
    for cell in notebook["cells"]:
        cell["metadata"] |= {"scrolled": True, "trusted": True}


def vscode(notebook):
    notebook["metadata"]["language_info"] = {"name": "python", "version": "3.13.1"}
    for cell in notebook["cells"]:
        cell["metadata"] |= {"vscode": {"languageId": "python"}}
        cell["source"] = lines(cell["source"].replace("\n", "\r\n"))
    for cell in list(notebook["cells"]):
        cell.update({key: cell.pop(key) for key in sorted(cell)})


def new_ids(notebook):
    vscode(notebook)
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = f"{number:08x}"


def marks_lost(notebook):
    jupyterlab(notebook)
    for cell in notebook["cells"]:
        cell["metadata"].pop("assignment", None)


def all_lost(notebook):
    colab(notebook)
    del notebook["metadata"]["assignment"]
    for cell in notebook["cells"]:
        cell["metadata"] = {"id": cell["metadata"]["id"]}


def through_nbformat(notebook):
    made = nbformat.from_dict(copy.deepcopy(notebook))
    notebook.clear()
    notebook.update(json.loads(nbformat.writes(made)))


SERVICES = [
    *(colab, colab_with_ids, jupyterlab, notebook_7, vscode),
    *(new_ids, marks_lost, all_lost, through_nbformat),
]


def answered():
    """An edition as students leave it: a helper cell above, one between, an exercise left out."""
    notebook = edition(RIGHT | {3: SMALL["questions"][2]["starter"]})
    notebook["cells"].insert(place(notebook, "exercise-1"), code("mine", "STEP = 1"))
    notebook["cells"].insert(
        place(notebook, "answer-2"), code("mine-2", "def add(a, b):\n    return a + b")
    )
    return notebook


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_gives_the_same_cells(service):
    plain = splice(answered(), SMALL)
    notebook = answered()
    service(notebook)
    found = splice(read_submission(json.dumps(notebook).encode()), SMALL)
    assert found.cells == plain.cells and found.answers == plain.answers
    assert found.preamble == plain.preamble == "STEP = 1" and not found.findings


@pytest.mark.parametrize("service", SERVICES)
def test_services_do_change_the_file(service):
    notebook = answered()
    service(notebook)
    assert json.dumps(notebook) != json.dumps(answered())
