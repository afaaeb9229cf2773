"""The pins are read in one way, and agree with what they are compiled from."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT, refused
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pythons import write_wheel

from tools.book import pins
from tools.book.pins import NAMED, compile_pins, read_pins
from tools.environment import PINS


@pytest.fixture
def root(tmp_path):
    """A copy of the pins and of what they are compiled from."""
    for name in (NAMED, *PINS):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def requirements(path):
    """The requirements of a file by normalised name, and the comment after each."""
    pairs = (line.partition("#") for line in path.read_text(encoding="utf-8").splitlines())
    read = [(Requirement(text), comment) for text, _, comment in pairs if text.strip()]
    return {canonicalize_name(line.name): (line, comment) for line, comment in read}


def test_pins_are_compiled_from_what_we_name():
    """As far as that can be known without a network."""
    named, compiled = requirements(ROOT / NAMED), requirements(ROOT / PINS[0])
    via = {name for name, (_, comment) in compiled.items() if f"-r {NAMED}" in comment}
    assert named.keys() == via
    for name, (wanted, reason) in named.items():
        pin = compiled[name][0]
        assert wanted.specifier.contains(str(pin.specifier).removeprefix("==")), name
        assert pin.marker == wanted.marker and reason.strip(), name
    # A pin of a CUDA package would be installed beside a CPU build of torch too.
    assert [name for name in compiled if re.match("nvidia|cuda|triton", name)] == []


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("numpy>=2", ["line 1, ", "is not 'package==version'"]),
        ("D2L==1.0.4\nd2l==1.0.3", ["line 2: ", "d2l is pinned twice"]),
    ],
)
def test_file_that_does_not_hold_pins_is_one_line(root, content, parts):
    (root / PINS[1]).write_text(content)
    with refused(f"{PINS[1]}: ", *parts):
        read_pins(root)


def test_what_linux_alone_needs_is_left_to_pip_and_nothing_is_lost_where_uv_fails(
    root, monkeypatch
):
    kept = (
        "# header\nnumpy==2.4.6  # via torch\n"
        "appnope==1.0 ; sys_platform == 'darwin' or sys_platform == 'linux'  # via x\n"
    )
    linux = "triton==3.7.1 ; python_version < '4' and sys_platform == 'linux'  # via x\n"

    def uv(code):
        def run(command, cwd, **options):
            next(Path(word) for word in command if word.endswith(PINS[0])).write_text(kept + linux)
            return SimpleNamespace(returncode=code)

        monkeypatch.setattr(pins.subprocess, "run", run)

    before = (root / PINS[0]).read_text()
    uv(1)
    with refused(f"{NAMED}: ", "unchanged"):
        compile_pins(root=root)
    assert (root / PINS[0]).read_text() == before
    uv(0)
    compile_pins(root=root)
    assert (root / PINS[0]).read_text() == kept


def test_uv_compiles(tmp_path, monkeypatch):
    """Without a network, from a folder of one wheel."""
    if find_spec("uv") is None:
        pytest.skip("no uv in this environment: 'make book'")
    write_wheel(tmp_path, "tiny")
    (tmp_path / NAMED).write_text("tiny  # as an example\n")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    compile_pins(root=tmp_path)
    pin = re.sub("  +", "  ", (tmp_path / PINS[0]).read_text().splitlines()[-1])
    assert pin == f"tiny==1.0  # via -r {NAMED}"
