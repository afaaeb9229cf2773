"""Every chapter alone, in a copy of each service's environment: the set-up runs for real.

All cells run where the room differs from the environment in which every chapter is compared: on
a bare laptop, and with Colab's older packages. Studio Lab and Binder have the book's own pins:
there runs the chapter with the most to install, in Studio Lab whole, and after it the set-up and
every import of the others. With the switch on a laptop runs those that need GPUs, as the runner
`simulated` compares the rest.
"""

import inspect
import re
import shutil
import sys
from datetime import datetime

import nbformat
import pytest
from helpers import CHAPTERS, ROOT, cell, code, copy_kernel, read
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from rooms import CUDA, MAKERS, Room, binder_python, copied, environment, run

from kernels import start
from tools.book.book import Book
from tools.languages.language import read_languages

BOOK = Book(ROOT)
PINNED = ("studio-lab", "binder")
WHOLE = "neural-networks-on-gpus"  # the one that needs d2l and torchvision
SWITCH = "SIMULATE_GPUS = 'if none'"
COMPLETE = f"""\
import importlib.util, sys
from pathlib import Path
{inspect.getsource(start.complete_torchvision)}
def complete_room():
    import torch
    from unittest.mock import patch

    # Simulated GPUs, which are on by now, name a version of CUDA that torch was not built with.
    built_with = torch.version.cuda if {CUDA} else None
    with patch.object(torch.version, "cuda", built_with):
        complete_torchvision()

complete_room()
print(hasattr(sys.modules[__name__], "torchvision_library"))
"""


def cases():
    """(room, chapter, switch on, all cells): ranks take long, so rooms start those of one only."""
    for room in MAKERS:
        for name in CHAPTERS:
            chapter, group = BOOK.chapters[name], pytest.mark.xdist_group(room)
            ranks = any("torch.distributed.run" in cell.source for cell in chapter.code_cells)
            dear = ranks and name != "when-a-process-dies"
            whole = room != "binder" and not dear
            if chapter.gpus and room == "bare" and not CUDA:
                yield pytest.param(room, name, True, True, marks=group)
            if not chapter.gpus and (room not in PINNED or name == WHOLE):
                yield pytest.param(room, name, False, whole, marks=group)
    for language in read_languages(ROOT):  # the set-up alone: all other code is the same in all
        name = f"../languages/{language}/notebooks/computing-devices"
        yield pytest.param("bare", name, False, False, marks=pytest.mark.xdist_group("bare"))


def imports_of(notebook):
    """What a chapter imports after its set-up, wherever it does, as one cell."""
    place = notebook.cells.index(cell(notebook, "setup")) + 1
    lines = "\n".join(c.source for c in notebook.cells[place:] if c.cell_type == "code")
    found = dict.fromkeys(
        re.findall(r"^(?:import|from) (?!shared\b)[^\n(]*(?:\([^)]*\))?", lines, re.M)
    )
    return "\n".join(found)


def the_others():
    """The set-ups and the imports of the other chapters, for a room that has what all need."""
    for name in CHAPTERS:
        if name != WHOLE and not BOOK.chapters[name].gpus:
            notebook = read(ROOT / "notebooks" / f"{name}.ipynb")
            yield code(f"room-setup-{name}", cell(notebook, "setup").source)
            yield code(f"room-imports-{name}", imports_of(notebook))


def packages(room):
    found = [path.stem for path in room.folder.glob("lib/python*/site-packages/*.dist-info")]
    return dict(name.rsplit("-", 1) for name in found)


def execute(notebook, room, folder, monkeypatch):
    argv = [str(room.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    copy_kernel(folder.parent / "jupyter", "cpu", "room", argv=argv, env={})
    monkeypatch.setenv("JUPYTER_PATH", str(folder.parent / "jupyter"))
    client = NotebookClient(
        notebook, kernel_name="room", timeout=600, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute(env=environment())


def seconds(executed):
    times = executed.metadata.execution
    begin, end = (times[name] for name in ("iopub.status.busy", "shell.execute_reply"))
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def said(notebook, id):
    return "".join(output.get("text", "") for output in cell(notebook, id).outputs)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "alone").mkdir()
    return tmp_path / "alone"


@pytest.mark.parametrize("name, chapter, simulated, whole", list(cases()))
def test_chapter_runs(name, chapter, simulated, whole, folder, monkeypatch, record_property):
    notebook = nbformat.read(shutil.copy(ROOT / "notebooks" / f"{chapter}.ipynb", folder), 4)
    set_up, switch = cell(notebook, "setup"), cell(notebook, "switch")
    assert switch.source.startswith(SWITCH)
    if not simulated:
        switch.source = switch.source.replace(SWITCH, "SIMULATE_GPUS = False", 1)
    place = notebook.cells.index(set_up) + 1
    if not whole:
        notebook.cells[place:] = [code("room-imports", imports_of(notebook))]
    notebook.cells.insert(place, code("room-complete", COMPLETE))
    others = list(the_others()) if name in PINNED else []
    notebook.cells += others
    notebook.cells.append(code("room-again", set_up.source))
    if simulated:
        notebook.cells.append(code("room-count", "print(torch.cuda.device_count())"))

    with copied(name) as room:
        before = packages(room)
        done = execute(notebook, room, folder, monkeypatch)
        after, notes = packages(room), room.notes.read_text().splitlines()

    new = sorted(f"{package} {after[package]}" for package in after.keys() - before.keys())
    took = f"measured {seconds(cell(done, 'setup')):.1f} s"
    notes.append(f"{chapter}: set-up installed {', '.join(new) or 'nothing'}, {took}")
    if said(done, "room-complete") == "True\n":
        notes.append("torchvision: a CUDA build beside a CPU one of torch, completed")
    for note in notes:
        record_property(name, note)

    assert bool(said(done, "setup")) == bool(new) or simulated  # silent where all is there
    assert {package: after[package] for package in before} == before  # and nothing replaced
    assert not any(said(done, other.id) for other in [*others[::2], cell(done, "room-again")])
    assert seconds(cell(done, "room-again")) < 10
    if simulated:
        assert "2 simulated GPUs" in said(done, "setup")
        assert said(done, "room-count") == "2\n"


@pytest.mark.xdist_group("bare")
def test_chapter_without_its_set_up_fails(folder, monkeypatch):
    notebook = nbformat.read(ROOT / "notebooks" / "copying-between-devices.ipynb", as_version=4)
    cell(notebook, "setup").source = ""
    with copied("bare") as room:
        with pytest.raises(CellExecutionError, match="No module named 'matplotlib'"):
            execute(notebook, room, folder, monkeypatch)


@pytest.mark.xdist_group("binder")
def test_binder_reads_what_its_room_is_made_of(record_property):
    """Binder's own program, which writes the Dockerfile of an image and here builds none."""
    room = Room("repo2docker")
    run(sys.executable, "-m", "venv", room.folder)
    room.pip("jupyter-repo2docker==2026.4.0")
    program = room.folder / "bin" / "jupyter-repo2docker"
    told = run(program, "--no-build", "--debug", "--user-name", "reader", "--user-id", 1000, ROOT)
    assert f"Building conda environment for python={binder_python()}\n" in told
    assert re.findall(r"^.*(?:pip install|RUN .*postBuild).*$", told, re.M) == [
        'RUN ${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r "binder/requirements.txt"',
        "RUN chmod +x binder/postBuild",
        "RUN ./binder/postBuild",
    ]
    record_property("binder", "jupyter-repo2docker 2026.4.0 reads binder/ as the room does")
