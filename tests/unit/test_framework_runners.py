"""Chapters in other frameworks: their runners and environments, and the text they share."""

import shutil
import subprocess
import sys
import sysconfig

import pytest
from helpers import (
    ROOT,
    assert_one_line,
    code,
    copy_code,
    copy_kernel,
    outputs_path,
    prose,
    read,
    run_tool,
    write,
)

from tools.book.book import Book
from tools.book.runners import read_runners
from tools.environment import STAMP, framework_environment, stamp
from tools.rules.rules import broken_rules
from tools.stages import all_stages

COMMON = prose("title", "# First"), code("sum", "2 + 2")
NOTE = prose("note", "Both say it.")
WHERE_JAX = code("where-jax", "import sys\nsys.prefix")
PINS = "kernels/jax/requirements.txt"


@pytest.fixture
def root(small_book):
    """A tiny book, whose first chapter is there in JAX, too."""
    copy_code(small_book, "kernels/jax")
    shutil.copy(ROOT / "kernels" / "framework.py", small_book / "kernels")
    write(small_book, "first", *COMMON, NOTE)
    write(small_book, "first-jax", *COMMON, NOTE, WHERE_JAX)
    return small_book


@pytest.fixture
def environment(root):
    """An environment that holds what this one does, in the place of one with the pins."""
    environment = framework_environment("jax", root)
    venv = [sys.executable, "-m", "venv", "--without-pip", environment.folder]
    subprocess.run(venv, check=True)
    [packages] = environment.folder.glob("lib/*/site-packages")
    (packages / "all.pth").write_text(sysconfig.get_path("purelib"))
    (environment.folder / STAMP).write_text(stamp(environment))
    return environment


def record(root, runner):
    run = run_tool(root, "record", RUNNER=runner)
    assert run.returncode == 0, run.stderr


def printed(recorded, index):
    return recorded.cells[index].outputs[0].data["text/plain"]


def pages(book, runner):
    return [chapter.page_name for chapter in book.chapters_of(book.runners[runner])]


def test_a_framework_is_recorded_in_its_own_environment(root, environment):
    book = Book(root)
    assert pages(book, "jax") == ["first"]
    assert pages(book, "cpu") == ["first", "second"]
    record(root, "jax")
    record(root, "cpu")

    in_torch = read(outputs_path("first", "cpu", root))
    in_jax = read(outputs_path("first-jax", "jax", root))
    assert printed(in_torch, 0) == printed(in_jax, 0) == "4"
    assert printed(in_jax, 1) == repr(str(environment.folder))
    assert in_jax.metadata.provenance.versions == {"jax": "0.10.2"}

    recorded_book = Book(root)
    recording = recorded_book.recording("jax", "first-jax")
    pins = recorded_book.pins_of(recording.runner)
    assert recording.stale_because(pins) is None
    assert "jax is pinned to 1" in recording.stale_because(pins | {"jax": "1"})
    # Nothing of it is stale for a build either.
    assert "jax" not in run_tool(root, "book").stdout


def test_frameworks_are_compared_in_a_full_run_only(root):
    quick = [stage.name for stage in all_stages(root=root)]
    full = [stage.name for stage in all_stages(full=True, root=root)]
    assert "nbval jax" not in quick
    assert "nbval jax" in full


def require_python(root, versions):
    """Let JAX need one of these versions of Python."""
    path = root / "tools" / "environment.py"
    changed = f'OLD_PYTHONS = {{"jax": {versions}, '
    path.write_text(path.read_text().replace("OLD_PYTHONS = {", changed))


def test_without_such_a_package_one_line_says_so(root):
    (root / PINS).write_text("jax==0\n")
    run = run_tool(root, "record", "jax", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert run.returncode == 1
    reason = "kernels/jax/kernel.json: no environment for jax"
    assert_one_line(run.stderr, reason, "jax==0")


def test_without_pins_one_line_says_so(root):
    (root / PINS).unlink()
    run = run_tool(root, "record", "jax")
    assert run.returncode == 1
    assert_one_line(run.stderr, f"kernels/jax/kernel.json: no {PINS}", "--framework")


def test_without_its_python_recordings_stay_uncompared(root):
    require_python(root, "((3, 4),)")
    run = run_tool(root, "record", "jax")
    assert run.returncode == 1
    assert_one_line(run.stderr, f"{PINS}: needs Python 3.4")

    copy_kernel(root, "cpu")
    record(root, "cpu")
    # What was left is tried again by the next command.
    for _ in range(2):
        run = run_tool(root, "book")
        assert run.returncode == 0
        assert "left as it was recorded: kernels/jax" in run.stdout

    recorded = root / "outputs" / "jax" / "first-jax.ipynb"
    recorded.parent.mkdir()
    outputs_path("first", "cpu", root).rename(recorded)
    run = run_tool(root, "test", "jax", FULL="1")
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"nothing of jax is compared: {PINS}" in run.stderr


FIRST = "notebooks/first.ipynb"
MORE = prose("more-jax", "## More\n\nOf JAX.")
FAULTS = [
    (
        [*COMMON, prose("note", "Another.")],
        "cell 2 ('note'): another text than in notebooks/",
    ),
    ([*COMMON], f"first-jax.ipynb: lacks 'note' of {FIRST}; add it"),
    ([*COMMON, NOTE, code("more", "1")], f"cell 3 ('more'): is not in {FIRST}"),
    ([COMMON[0], NOTE, COMMON[1]], f"('note'): 'sum' stands here in {FIRST}"),
    ([*COMMON, code("note", "1")], "cell 2 ('note'): is of another kind"),
    ([*COMMON, MORE, NOTE], "its section holds 'note' of all"),
]


def faults(root, cells):
    """Return the rules that an edition of these cells breaks, apart from how it opens."""
    write(root, "first-jax", *cells)
    book = Book(root)
    lines = broken_rules(book.chapters["first-jax"], book)
    return [line for line in lines if "opens" not in line]


@pytest.mark.parametrize(("cells", "words"), FAULTS)
def test_a_text_that_differs_between_frameworks_is_named(root, cells, words):
    [line] = faults(root, cells)
    assert words in line


@pytest.mark.parametrize("own", [[], [MORE]], ids=["nothing", "a section"])
def test_a_framework_may_add_sections_of_its_own(root, own):
    assert faults(root, [*COMMON, NOTE, *own]) == []


def test_pins_of_frameworks_name_no_host():
    for runner in read_runners(ROOT).values():
        if runner.requirements:
            assert "://" not in (ROOT / runner.requirements).read_text(encoding="utf-8")
