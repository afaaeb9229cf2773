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

WITNESSES = tomllib.loads(Path(__file__).with_name("witnesses.toml").read_text())[
    "witness"
]
HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"


def pattern(said):
    """A compiled pattern of the words `said`, in which [...] stands for anything."""
    parts = map(re.escape, said.strip().split("[...]"))
    return re.compile(".*".join(parts), re.DOTALL)


def simulated(witness):
    """(the names of the classes of the error, what was said) in this process."""
    said = io.StringIO()

    def tell(message, category, *_):
        print(f"{category.__name__}: {message}", file=said)

    with (
        cudasim.simulate(gpus=2, card=witness.get("card", "T4")),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always" if witness.get("warns") else "ignore")
        warnings.showwarning = tell
        with contextlib.redirect_stdout(said):
            try:
                exec(compile(HEAD + witness["program"], witness["name"], "exec"), {})
            except Exception as error:
                return {each.__name__ for each in type(error).__mro__}, str(error)
    return set(), said.getvalue()


def apart(witness, tmp_path):
    """What a program prints in processes of its own, one a rank."""
    script = write(tmp_path / "witness.py", HEAD + textwrap.dedent(witness["program"]))
    started = [
        "-m",
        "cudasim",
        "--gpus",
        2,
        "--card",
        witness.get("card", "T4"),
        script,
    ]
    if ranks := witness.get("ranks"):
        return "".join(
            got.stdout for got in run_ranks(*started, cwd=tmp_path, ranks=ranks)
        )
    return run(*started, cwd=tmp_path).stdout


@pytest.mark.parametrize("witness", WITNESSES, ids=lambda witness: witness["name"])
def test_simulated_gpus_say_it_too(witness, tmp_path, request):
    if why := witness.get("differs"):
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    if witness.get("alone") or witness.get("ranks"):
        kinds, said = set(), apart(witness, tmp_path)
    else:
        kinds, said = simulated(witness)
    assert pattern(witness["said"]).fullmatch(said.strip()), said
    assert witness.get("raises", "nothing") in (kinds or {"nothing"}), said
