"""The setup of every chapter runs for real, in a copy of each service's environment.

All cells run with Colab's older packages. A bare laptop gets those with which every chapter is
compared anyway: there run, after each setup, all cells of one chapter and the imports of all
that have the same. Studio Lab and Binder have the book's own pins: there runs the setup with
the most to install, and after it that and every import of the others. GPUs are simulated, on the
laptop, for those that need them. At the end each room loses its network, and the setup runs
once more.
"""

import inspect
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime

import pytest
from helpers import CHAPTERS, ROOT, cell, code, copy_kernel, read
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from release_page import from_here
from rooms import CUDA, Room, binder_python, copied, environment, run

from kernels import start
from tools.book.book import Book
from tools.languages.language import read_languages

BOOK = Book(ROOT)
# The one that needs d2l and torchvision.
HEAVIEST_SETUP = "neural-networks-on-gpus"
WITHOUT_GPUS = [name for name in CHAPTERS if not BOOK.chapters[name].gpus]
START, CPU_ALONE = "lab.start(", "lab.start(simulate=False, "
# After this cell pip reaches nothing any more.
NO_NETWORK = """\
import os
os.environ |= {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
os.environ |= {"no_proxy": "", "NO_PROXY": ""}
"""
# What IPython prints below every line of %pip.
NOTE = "Note: you may need to restart the kernel to use updated packages.\n"
# Run in a room, this defines and calls the function of the kernels.
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


@dataclass(frozen=True)
class Case:
    """What is run in a copy of a room."""

    room: str
    chapter: str
    # These have their setups and imports run after it.
    others: tuple[str, ...] = ()
    is_simulated: bool = False
    is_whole: bool = False  # all cells of the chapter, not its imports alone


def starts_ranks(name):
    """Return whether a chapter starts processes, which take long."""
    # This one is the chapter whose ranks are started, in every room.
    if name == "when-a-process-dies":
        return False
    sources = [cell.source for cell in BOOK.chapters[name].code_cells]
    return any("torch.distributed.run" in source for source in sources)


def bare_cases():
    """Yield a case for each setup, with all chapters that have the same."""
    alike = {}
    for name in CHAPTERS:
        setup = cell(BOOK.chapters[name].notebook, "setup").source
        is_simulated = name not in WITHOUT_GPUS
        alike.setdefault((setup, is_simulated), []).append(name)
    for (_, is_simulated), (name, *others) in alike.items():
        if is_simulated and CUDA:
            continue
        is_whole = name != HEAVIEST_SETUP and not starts_ranks(name)
        yield Case("bare", name, tuple(others), is_simulated, is_whole)
    yield Case("old-pip", "computing-devices", is_simulated=not CUDA)
    # All other code is the same in all languages.
    for language in read_languages(ROOT):
        translated = f"../languages/{language}/notebooks/computing-devices"
        yield Case("bare", translated)


def service_cases():
    for name in WITHOUT_GPUS:
        yield Case("colab", name, is_whole=not starts_ranks(name))
    others = [name for name in WITHOUT_GPUS if name != HEAVIEST_SETUP]
    for room in ("studio-lab", "binder"):
        yield Case(room, HEAVIEST_SETUP, tuple(others))


CASES = [*bare_cases(), *service_cases()]
# No worker is to be left with a long one at the end.
CASES.sort(key=lambda case: not case.is_whole)


def chapter_id(case):
    return f"{case.room}-{case.chapter.removeprefix('../')}"


def imports_of(notebook):
    """Return what a chapter imports after its setup, wherever it does, as one cell."""
    place = notebook.cells.index(cell(notebook, "setup")) + 1
    later = notebook.cells[place:]
    sources = [part.source for part in later if part.cell_type == "code"]
    statement = r"^(?:import|from) (?!shared\b)[^\n(]*(?:\([^)]*\))?"
    imports = re.findall(statement, "\n".join(sources), re.M)
    return "\n".join(dict.fromkeys(imports))


def execute(notebook, room, folder, monkeypatch):
    kernels = folder.parent / "jupyter"
    argv = [str(room.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    copy_kernel(kernels, "cpu", "room", argv=argv, env={})
    monkeypatch.setenv("JUPYTER_PATH", str(kernels))
    client = NotebookClient(
        notebook,
        kernel_name="room",
        timeout=600,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute(env=environment())


def seconds(executed_cell):
    times = executed_cell.metadata.execution
    begin = datetime.fromisoformat(times["iopub.status.busy"])
    end = datetime.fromisoformat(times["shell.execute_reply"])
    return (end - begin).total_seconds()


def printed(notebook, id):
    return "".join(output.get("text", "") for output in cell(notebook, id).outputs)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "alone").mkdir()
    return tmp_path / "alone"


def runnable_here(source, case):
    assert START in source
    if not case.is_simulated:
        source = source.replace(START, CPU_ALONE)
    return from_here(source)


def prepared(case, folder):
    """Return the notebook that a room executes, and the setups that have nothing to install."""
    path = ROOT / "notebooks" / f"{case.chapter}.ipynb"
    shutil.copy(path, folder)
    notebook = read(path)
    setup = cell(notebook, "setup")
    setup.source = runnable_here(setup.source, case)

    place = notebook.cells.index(setup) + 1
    if not case.is_whole:
        notebook.cells[place:] = [code("room-imports", imports_of(notebook))]
    notebook.cells.insert(place, code("room-complete", COMPLETE))
    silent_setups = []
    for name in case.others:
        other = read(ROOT / "notebooks" / f"{name}.ipynb")
        source = runnable_here(cell(other, "setup").source, case)
        other_setup = code(f"room-setup-{name}", source)
        other_imports = code(f"room-imports-{name}", imports_of(other))
        notebook.cells += [other_setup, other_imports]
        silent_setups.append(other_setup)
    again = code("room-again", setup.source)
    silent_setups.append(again)
    notebook.cells += [code("room-offline", NO_NETWORK), again]
    if case.is_simulated:
        notebook.cells.append(code("room-count", "print(torch.cuda.device_count())"))
    return notebook, silent_setups


@pytest.mark.parametrize("case", CASES, ids=chapter_id)
def test_chapter_runs(case, folder, monkeypatch, record_property):
    notebook, silent_setups = prepared(case, folder)
    with copied(case.room) as room:
        before = room.packages()
        executed = execute(notebook, room, folder, monkeypatch)
        after = room.packages()
        notes = room.notes.read_text().splitlines()

    new = sorted(after.keys() - before.keys())
    installed = ", ".join(f"{name} {after[name]}" for name in new) or "nothing"
    took = f"measured {seconds(cell(executed, 'setup')):.1f} s"
    notes.append(f"{case.chapter}: setup installed {installed}, {took}")
    if printed(executed, "room-complete") == "True\n":
        notes.append("torchvision: a CUDA build beside a CPU one of torch, completed")
    for note in notes:
        record_property(case.room, note)

    # Nothing was replaced.
    assert before.items() <= after.items()
    if case.is_simulated:
        line = "Two simulated T4 GPUs; values are real, times are modelled.\n"
        assert printed(executed, "room-count") == "2\n"
    else:
        line = "No GPU: the CPU alone.\n"
    assert printed(executed, "setup").endswith(line)
    # Where all is there, pip has nothing to say.
    for setup in silent_setups:
        assert printed(executed, setup.id).replace(NOTE, "") == line, setup.id
    assert seconds(cell(executed, "room-again")) < 10


def test_chapter_without_its_set_up_fails(folder, monkeypatch):
    notebook = read(ROOT / "notebooks" / "copying-between-devices.ipynb")
    cell(notebook, "setup").source = ""
    with copied("bare") as room:
        with pytest.raises(CellExecutionError, match="No module named 'cudasim'"):
            execute(notebook, room, folder, monkeypatch)


def test_binder_reads_what_its_room_is_made_of(record_property):
    """Binder's own program, which writes the Dockerfile of an image and here builds none."""
    room = Room("repo2docker")
    run(sys.executable, "-m", "venv", room.folder)
    room.pip("jupyter-repo2docker==2026.4.0")
    program = room.folder / "bin" / "jupyter-repo2docker"
    user = ["--user-name", "reader", "--user-id", 1000]
    log = run(program, "--no-build", "--debug", *user, ROOT)
    assert f"Building conda environment for python={binder_python()}\n" in log
    assert re.findall(r"^.*(?:pip install|RUN .*postBuild).*$", log, re.M) == [
        'RUN ${KERNEL_PYTHON_PREFIX}/bin/pip install --no-cache-dir -r ".binder/requirements.txt"',
        "RUN chmod +x .binder/postBuild",
        "RUN ./.binder/postBuild",
    ]
    note = "jupyter-repo2docker 2026.4.0 reads .binder/ as the room does"
    record_property("binder", note)
