"""Chapters in other frameworks: whose runners execute them, where, and what all have in common."""

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
PINS = "kernels/jax/requirements.txt"


@pytest.fixture
def root(small_book):
    """A tiny book, whose first chapter is there in JAX, too."""
    copy_code(small_book, "kernels/jax")
    (small_book / "kernels" / "framework.py").write_bytes(
        (ROOT / "kernels" / "framework.py").read_bytes()
    )
    write(small_book, "first", *COMMON, NOTE)
    write(
        small_book,
        "first-jax",
        *COMMON,
        NOTE,
        code("where-jax", "import sys\nsys.prefix"),
    )
    return small_book


def make_environment(root):
    """An environment that holds what this one does, in the place of one with the pins."""
    made = framework_environment("jax", root)
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", made.folder], check=True
    )
    [packages] = made.folder.glob("lib/*/site-packages")
    (packages / "all.pth").write_text(sysconfig.get_path("purelib"))
    (made.folder / STAMP).write_text(stamp(made))
    return made


def test_each_framework_is_recorded_in_its_own_environment_with_its_own_pins(root):
    place = make_environment(root).folder
    for runner, name in ("jax", "first-jax"), ("cpu", "first"):
        assert [
            chapter.page
            for chapter in Book(root).chapters_of(Book(root).runners[runner])
        ] == (["first"] if runner == "jax" else ["first", "second"])
        run = run_tool(root, "record", RUNNER=runner)
        assert run.returncode == 0, run.stderr
        made = read(outputs_path(name, runner, root))
        assert made.cells[0].outputs[0].data["text/plain"] == "4"
    made = read(outputs_path("first-jax", "jax", root))
    assert made.cells[1].outputs[0].data["text/plain"] == repr(str(place))
    assert made.metadata.provenance.versions == {"jax": "0.10.2"}
    recording = Book(root).recording("jax", "first-jax")
    pins = Book(root).pins_of(recording.runner)
    assert recording.stale_because(pins) is None
    assert "jax is pinned to 1" in recording.stale_because(pins | {"jax": "1"})
    assert "jax" not in run_tool(root, "book").stdout  # nothing of it is stale
    named = [stage.name for stage in all_stages(root=root)]
    full = [stage.name for stage in all_stages(full=True, root=root)]
    assert "nbval jax" in full and "nbval jax" not in named


@pytest.mark.parametrize(
    ("pins", "pythons", "says"),
    [
        (
            "jax==0\n",
            None,
            ["kernels/jax/kernel.json: no environment for jax", "jax==0"],
        ),
        ("jax==0\n", "((3, 4),)", ["kernels/jax/requirements.txt: needs Python 3.4"]),
        (
            None,
            None,
            ["kernels/jax/kernel.json: no kernels/jax/requirements.txt", "--framework"],
        ),
    ],
    ids=["no such package", "no such Python", "no pins"],
)
def test_an_environment_that_cannot_be_made_is_one_line(root, pins, pythons, says):
    (root / PINS).write_text(pins) if pins else (root / PINS).unlink()
    if pythons:
        path = root / "tools" / "environment.py"
        old = f'OLD_PYTHONS = {{"jax": {pythons}, '
        path.write_text(path.read_text().replace("OLD_PYTHONS = {", old))
    run = run_tool(root, "record", "jax", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert run.returncode == 1
    assert_one_line(run.stderr, *says)
    if pythons:  # what is recorded stays; nothing can be compared
        copy_kernel(root, "cpu")
        run_tool(root, "record", "cpu")
        run = run_tool(root, "book")
        assert (
            run.returncode == 0 and "left as it was recorded: kernels/jax" in run.stdout
        )
        (root / "outputs" / "jax").mkdir()
        outputs_path("first", "cpu", root).rename(
            root / "outputs" / "jax" / "first-jax.ipynb"
        )
        run = run_tool(root, "test", "jax", FULL="1")
        assert run.returncode == 0, run.stdout + run.stderr
        assert "nothing of jax is compared: kernels/jax/requirements.txt" in run.stderr


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ([*COMMON, NOTE], None),
        ([*COMMON, NOTE, prose("more-jax", "## More\n\nOf JAX.")], None),
        (
            [*COMMON, prose("note", "Another.")],
            "cell 2 ('note'): another text than in notebooks/",
        ),
        ([*COMMON], "first-jax.ipynb: lacks 'note' of notebooks/first.ipynb; add it"),
        (
            [*COMMON, NOTE, code("more", "1")],
            "cell 3 ('more'): is not in notebooks/first.ipynb",
        ),
        (
            [COMMON[0], NOTE, COMMON[1]],
            "('note'): 'sum' stands here in notebooks/first.ipynb",
        ),
        ([*COMMON, code("note", "1")], "cell 2 ('note'): is of another kind"),
        (
            [*COMMON, prose("more-jax", "## More"), NOTE],
            "its section holds 'note' of all",
        ),
    ],
)
def test_what_frameworks_have_in_common_is_the_same_in_all(root, cells, says):
    write(root, "first-jax", *cells)
    book = Book(root)
    found = [
        line
        for line in broken_rules(book.chapters["first-jax"], book)
        if "opens" not in line
    ]
    assert [says in line for line in found] == [True] if says else found == []


def test_runners_of_frameworks_show_what_their_names_say_and_their_pins_name_no_host():
    runners = [runner for runner in read_runners(ROOT).values() if runner.pins]
    assert {runner.name: runner.gpus for runner in runners} == {
        "jax-simulated": 2,
        "tensorflow-simulated": 2,
        "jax": 0,
        "mxnet": 0,
        "tensorflow": 0,
    }
    assert {runner.machine for runner in runners if runner.gpus} == {"simulated"}
    assert not any(
        "://" in (ROOT / runner.pins).read_text("utf-8") for runner in runners
    )
