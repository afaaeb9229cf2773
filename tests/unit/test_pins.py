"""The pins are read in one way, and agree with what they are compiled from."""

import re
from importlib.util import find_spec

import pytest
from helpers import ROOT, refused
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pythons import write_wheel

from tools.book.pins import NAMED, compile_pins
from tools.environment import PINS


def requirements(path):
    """The requirements of a file by normalised name, and the comment after each."""
    pairs = (line.partition("#") for line in path.read_text(encoding="utf-8").splitlines())
    read = [(Requirement(text), comment) for text, _, comment in pairs if text.strip()]
    return {canonicalize_name(line.name): (line, comment) for line, comment in read}


def test_pins_are_compiled_from_what_we_name():
    named, compiled = requirements(ROOT / NAMED), requirements(ROOT / PINS[0])
    via = {name for name, (_, comment) in compiled.items() if f"-r {NAMED}" in comment}
    assert named.keys() == via
    for name, (wanted, reason) in named.items():
        pin = compiled[name][0]
        assert wanted.specifier.contains(str(pin.specifier).removeprefix("==")), name
        assert pin.marker == wanted.marker and reason.strip(), name
    # A pin of a CUDA package would be installed beside a CPU build of torch too.
    assert [name for name in compiled if re.match("nvidia|cuda|triton", name)] == []


def test_uv_compiles_what_linux_alone_needs_is_left_to_pip_and_a_failure_changes_nothing(
    tmp_path, monkeypatch
):
    if find_spec("uv") is None:
        pytest.skip("no uv in this environment: 'make book'")
    for name in ("tiny", "triton", "both"):
        write_wheel(tmp_path, name)
    (tmp_path / NAMED).write_text(
        "tiny\ntriton ; sys_platform == 'linux'\n"
        "both ; sys_platform == 'darwin' or sys_platform == 'linux'\n"
    )
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    compile_pins(root=tmp_path)
    kept = requirements(tmp_path / PINS[0])
    assert {name: str(line.specifier) for name, (line, _) in kept.items()} == dict.fromkeys(
        ("both", "tiny"), "==1.0"
    )
    before = (tmp_path / PINS[0]).read_text()
    (tmp_path / NAMED).write_text("tiny==1.0\ntiny==2.0\n")
    with refused(f"{NAMED}: ", "unchanged"):
        compile_pins(root=tmp_path)
    assert (tmp_path / PINS[0]).read_text() == before
