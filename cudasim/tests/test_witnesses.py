"""What real CUDA machines have said in public is what simulated GPUs say (`witnesses.toml`)."""

import contextlib
import io
import re
import textwrap
import tomllib
import warnings
from pathlib import Path

import pytest
from programs import run, run_ranks, write

import cudasim

TEXT = Path(__file__).with_name("witnesses.toml").read_text()
WITNESSES = tomllib.loads(TEXT)["witness"]
HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


def pattern(quotation):
    """Return a compiled pattern of a quotation, in which [...] stands for anything."""
    parts = [re.escape(part) for part in quotation.strip().split("[...]")]
    return re.compile(".*".join(parts), re.DOTALL)


@contextlib.contextmanager
def captured_output(warns):
    """Capture what is printed, and the warnings too if they are asked for."""
    output = io.StringIO()

    def show(message, category, *_):
        print(f"{category.__name__}: {message}", file=output)

    with warnings.catch_warnings(), contextlib.redirect_stdout(output):
        warnings.simplefilter("always" if warns else "ignore")
        warnings.showwarning = show
        yield output


def simulated(witness):
    """Run a program in this process; return the names of its error's classes, and its text."""
    program = compile(HEAD + witness["program"], witness["name"], "exec")
    with cudasim.simulate(gpus=2, card=witness.get("card", "T4")):
        with captured_output(witness.get("warns")) as output:
            try:
                exec(program, {})
            except Exception as error:
                classes = type(error).__mro__
                return {kind.__name__ for kind in classes}, str(error)
    return {"nothing"}, output.getvalue()


def in_processes(witness, tmp_path):
    """Return what a program prints in processes of its own, one a rank."""
    script = write(tmp_path / "witness.py", HEAD + textwrap.dedent(witness["program"]))
    card = witness.get("card", "T4")
    command = ["-m", "cudasim", "--gpus", 2, "--card", card, script]
    if "ranks" not in witness:
        return run(*command, cwd=tmp_path).stdout
    results = run_ranks(*command, cwd=tmp_path, ranks=witness["ranks"])
    return "".join(result.stdout for result in results)


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda witness: witness["name"])
def test_simulated_gpus_say_it_too(witness, tmp_path, request):
    if "differs" in witness:
        mark = pytest.mark.xfail(reason=witness["differs"], strict=True)
        request.applymarker(mark)
    if witness.get("alone") or witness.get("ranks"):
        error_classes = {"nothing"}
        text = in_processes(witness, tmp_path)
    else:
        error_classes, text = simulated(witness)
    assert pattern(witness["said"]).fullmatch(text.strip()), text
    assert witness.get("raises", "nothing") in error_classes, text
