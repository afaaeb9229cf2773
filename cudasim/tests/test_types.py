"""The types of what programs are offered, as mypy sees them."""

import subprocess
import sys

import pytest
from programs import PACKAGE, PROJECT, write

pytestmark = pytest.mark.full

PROGRAM = """
    import cudasim
    from cudasim.testing.gpus import Gpus

    cudasim.enable(gpus=2, card="T4", clock="modelled")
    with cudasim.simulate(gpus=1):
        enabled: bool = cudasim.is_enabled()
    cudasim.disable()
    names: list[str] = list(cudasim.CARDS)

    def test_peak(gpus: Gpus) -> None:
        with gpus.no_leak():
            peak: int = gpus[1].peak + sum(gpu.peak for gpu in gpus[:1])
"""


def mypy(*arguments, cwd):
    """Run mypy, and return its exit code and what it says."""
    pytest.importorskip("mypy", reason="mypy is not installed: no types are checked")
    command = [sys.executable, "-m", "mypy"]
    command += ["--config-file", PROJECT / "pyproject.toml"]
    command += ["--cache-dir", PROJECT.parent / "_build" / "mypy"]
    done = subprocess.run(
        [*command, *arguments], cwd=cwd, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def check(tmp_path, monkeypatch):
    """A function that runs mypy on the program and one more line."""
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))

    def check(line):
        program = write(tmp_path / "program.py", PROGRAM + f"    {line}\n")
        return mypy(program, cwd=tmp_path)

    return check


def test_the_public_face_is_clean():
    code, text = mypy(cwd=PROJECT)
    assert code == 0, text


def test_a_program_is_clean(check):
    code, text = check("")
    assert code == 0, text


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (
            "cudasim.enable(gpus='two')",
            'incompatible type "str"; expected "int | None"',
        ),
        ("Gpus()[0].peek", '"Gpu" has no attribute "peek"'),
        ("cudasim.nothing()", 'Module has no attribute "nothing"'),
    ],
)
def test_a_mistake_in_a_program_is_found(check, mistake, message):
    code, text = check(mistake)
    assert code != 0
    assert message in text
