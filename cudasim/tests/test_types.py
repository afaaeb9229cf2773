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
    """Run mypy; returns (exit code, what it says)."""
    pytest.importorskip("mypy", reason="mypy is not installed: no types are checked")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        PROJECT / "pyproject.toml",
    ]
    command += ["--cache-dir", PROJECT.parent / "_build" / "mypy", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_public_face_is_clean():
    code, said = mypy(cwd=PROJECT)
    assert code == 0, said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "Success"),
        (
            "cudasim.enable(gpus='two')",
            'incompatible type "str"; expected "int | None"',
        ),
        ("Gpus()[0].peek", '"Gpu" has no attribute "peek"'),
        ("cudasim.nothing()", 'Module has no attribute "nothing"'),
    ],
)
def test_a_program_is_checked_against_it(tmp_path, monkeypatch, more, words):
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    program = write(tmp_path / "program.py", PROGRAM + f"    {more}\n")
    code, said = mypy(program, cwd=tmp_path)
    assert words in said and code == (words != "Success"), said
