"""The set-up of every chapter runs for real, in a copy of each service's environment.

All cells run with Colab's older packages. A bare laptop gets those with which every chapter is
compared anyway: there run, after each set-up, all cells of one chapter and the imports of all
that have the same. Studio Lab and Binder have the book's own pins: there runs the set-up with
the most to install, and after it that and every import of the others. The switch is on, on the
laptop, for those that need GPUs.
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
from rooms import CUDA, Room, binder_python, copied, environment, run

from kernels import start
from tools.book.book import Book
from tools.languages.language import read_languages

BOOK = Book(ROOT)
PINNED = ("studio-lab", "binder")
DEAREST = "neural-networks-on-gpus"  # the one that needs d2l and torchvision
RANKS = {  # take long: rooms start those of one chapter only
    name
    for name, chapter in BOOK.chapters.items()
    if any("torch.distributed.run" in cell.source for cell in chapter.code_cells)
} - {"when-a-process-dies"}
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
    """(room, chapter, others for their set-ups and imports, switch on, all cells of the first)."""
    alike, local = {}, [name for name in CHAPTERS if not BOOK.chapters[name].gpus]
    for name in CHAPTERS:
        same = cell(BOOK.chapters[name].notebook, "setup").source, name not in local
        alike.setdefault(same, []).append(name)
    for (_, switch), (name, *others) in alike.items():
        if not (switch and CUDA):
            yield "bare", name, others, switch, name not in {DEAREST, *RANKS}
    for name in local:
        yield "colab", name, [], False, name not in RANKS
    for room in PINNED:
        yield room, DEAREST, [name for name in local if name != DEAREST], False, False
    for language in read_languages(ROOT):  # all other code is the same in all
        yield (
            "bare",
            f"../languages/{language}/notebooks/computing-devices",
            [],
            False,
            False,
        )


# No worker is to be left with a long one at the end.
LONGEST_FIRST = sorted(cases(), key=lambda case: not case[-1])


def imports_of(notebook):
    """What a chapter imports after its set-up, wherever it does, as one cell."""
    place = notebook.cells.index(cell(notebook, "setup")) + 1
    lines = "\n".join(c.source for c in notebook.cells[place:] if c.cell_type == "code")
    found = dict.fromkeys(
        re.findall(r"^(?:import|from) (?!shared\b)[^\n(]*(?:\([^)]*\))?", lines, re.M)
    )
    return "\n".join(found)


def the_others(chapters):
    """The set-ups and the imports of chapters, for a room that has what all need."""
    for name in chapters:
        notebook = read(ROOT / "notebooks" / f"{name}.ipynb")
        yield code(f"room-setup-{name}", cell(notebook, "setup").source)
        yield code(f"room-imports-{name}", imports_of(notebook))


def packages(room):
    found = [
        path.stem for path in room.folder.glob("lib/python*/site-packages/*.dist-info")
    ]
    return dict(name.rsplit("-", 1) for name in found)


def execute(notebook, room, folder, monkeypatch):
    argv = [str(room.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    copy_kernel(folder.parent / "jupyter", "cpu", "room", argv=argv, env={})
    monkeypatch.setenv("JUPYTER_PATH", str(folder.parent / "jupyter"))
    client = NotebookClient(
        notebook,
        kernel_name="room",
        timeout=600,
        resources={"metadata": {"path": str(folder)}},
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


@pytest.mark.parametrize("name, chapter, more, simulated, whole", LONGEST_FIRST)
def test_chapter_runs(
    name, chapter, more, simulated, whole, folder, monkeypatch, record_property
):
    notebook = nbformat.read(
        shutil.copy(ROOT / "notebooks" / f"{chapter}.ipynb", folder), 4
    )
    set_up, switch = cell(notebook, "setup"), cell(notebook, "switch")
    assert switch.source.startswith(SWITCH)
    if not simulated:
        switch.source = switch.source.replace(SWITCH, "SIMULATE_GPUS = False", 1)
    place = notebook.cells.index(set_up) + 1
    if not whole:
        notebook.cells[place:] = [code("room-imports", imports_of(notebook))]
    notebook.cells.insert(place, code("room-complete", COMPLETE))
    others = list(the_others(more))
    notebook.cells += others
    notebook.cells.append(code("room-again", set_up.source))
    if simulated:
        notebook.cells.append(code("room-count", "print(torch.cuda.device_count())"))

    with copied(name) as room:
        before = packages(room)
        done = execute(notebook, room, folder, monkeypatch)
        after, notes = packages(room), room.notes.read_text().splitlines()

    new = sorted(
        f"{package} {after[package]}" for package in after.keys() - before.keys()
    )
    took = f"measured {seconds(cell(done, 'setup')):.1f} s"
    notes.append(f"{chapter}: set-up installed {', '.join(new) or 'nothing'}, {took}")
    if said(done, "room-complete") == "True\n":
        notes.append("torchvision: a CUDA build beside a CPU one of torch, completed")
    for note in notes:
        record_property(name, note)

    assert (
        bool(said(done, "setup")) == bool(new) or simulated
    )  # silent where all is there
    assert {
        package: after[package] for package in before
    } == before  # and nothing replaced
    silent = [*others[::2], cell(done, "room-again")]
    assert [(each.id, words) for each in silent if (words := said(done, each.id))] == []
    assert seconds(cell(done, "room-again")) < 10
    if simulated:
        assert "2 simulated GPUs" in said(done, "setup")
        assert said(done, "room-count") == "2\n"


def test_chapter_without_its_set_up_fails(folder, monkeypatch):
    notebook = nbformat.read(
        ROOT / "notebooks" / "copying-between-devices.ipynb", as_version=4
    )
    cell(notebook, "setup").source = ""
    with copied("bare") as room:
        with pytest.raises(CellExecutionError, match="No module named 'matplotlib'"):
            execute(notebook, room, folder, monkeypatch)


def test_binder_reads_what_its_room_is_made_of(record_property):
    """Binder's own program, which writes the Dockerfile of an image and here builds none."""
    room = Room("repo2docker")
    run(sys.executable, "-m", "venv", room.folder)
    room.pip("jupyter-repo2docker==2026.4.0")
    program = room.folder / "bin" / "jupyter-repo2docker"
    told = run(
        program,
        "--no-build",
        "--debug",
        "--user-name",
        "reader",
        "--user-id",
        1000,
        ROOT,
    )
    assert f"Building conda environment for python={binder_python()}\n" in told
    assert re.findall(r"^.*(?:pip install|RUN .*postBuild).*$", told, re.M) == [
        'RUN ${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r ".binder/requirements.txt"',
        "RUN chmod +x .binder/postBuild",
        "RUN ./.binder/postBuild",
    ]
    record_property(
        "binder", "jupyter-repo2docker 2026.4.0 reads .binder/ as the room does"
    )
