"""The pins are read in one way, and agree with what they are compiled from."""

import re
import shutil
import zipfile
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from helpers import ROOT, assert_one_line
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.environment import PINS
from tools.errors import BookError
from tools.source import pins
from tools.source.pins import NAMED, compile_pins, index_settings, read_pins


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


def stale(root):
    """What `make pins` would change, as far as that can be known without a network."""
    named, compiled = requirements(root / NAMED), requirements(root / PINS[0])
    faults = [name for name in named if name not in compiled]
    for name, (pin, comment) in compiled.items():
        if (f"-r {NAMED}" in comment) != (name in named):
            faults.append(name)
        elif name in named:
            wanted = named[name][0]
            version = next(iter(pin.specifier)).version
            if version not in wanted.specifier or pin.marker != wanted.marker:
                faults.append(name)
    return faults


def test_pins_are_compiled_from_what_we_name():
    assert stale(ROOT) == []
    header = (ROOT / PINS[0]).read_text().splitlines()[:2]
    assert [line.strip("# ") for line in header][1] == "make pins"
    reasons = [comment for _, comment in requirements(ROOT / NAMED).values()]
    assert all(comment.strip() for comment in reasons)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("numpy  ", "numpy<2", "numpy"),
        ("torch==2.13.0", "torch==2.14.0", "torch"),
        ("tqdm ", "# tqdm ", "tqdm"),
        ("psutil", "psutil; sys_platform != 'win32'", "psutil"),
        ("psutil", "another-package", "another-package"),
    ],
)
def test_pins_compiled_from_something_else_are_noticed(root, old, new, fault):
    text = (root / NAMED).read_text()
    assert old in text
    (root / NAMED).write_text(text.replace(old, new, 1))
    assert fault in stale(root)


def test_builds_of_torch_choose_what_they_need():
    """A pin of a CUDA package would be installed beside a CPU build too."""
    read = read_pins()
    assert [name for name in read if re.match("nvidia|cuda|triton", name)] == []
    assert read["torch"] == "2.13.0"


def test_both_files_are_read_by_normalised_name(root):
    (root / PINS[0]).write_text(
        "# header\nJupyter_Client==8.10.0 ; sys_platform == 'linux'  # via\n"
    )
    (root / PINS[1]).write_text("d2l==1.0.3\n\n")
    assert read_pins(root) == {"jupyter-client": "8.10.0", "d2l": "1.0.3"}


@pytest.mark.parametrize("file", PINS)
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("numpy>=2", "is not 'package==version'"),
        ("--index-url https://example.org", "is not 'package==version'"),
        ("D2L==1.0.4\nd2l==1.0.3", "d2l is pinned twice"),
    ],
)
def test_line_that_is_no_pin_is_one_line(root, file, line, part):
    (root / PINS[1]).write_text("")
    (root / file).write_text(line, encoding="utf-8")
    with pytest.raises(BookError) as error:
        read_pins(root)
    assert_one_line(str(error.value), f"{file}: line ", part)


def test_files_that_cannot_be_read_are_one_line(root):
    (root / PINS[0]).write_bytes(b"numpy==2.4.6  # \xff\n")
    with pytest.raises(BookError) as error:
        read_pins(root)
    assert_one_line(str(error.value), PINS[0], "not UTF-8")
    (root / PINS[0]).unlink()
    with pytest.raises(BookError) as error:
        read_pins(root)
    assert_one_line(str(error.value), PINS[0], "git restore")


@pytest.fixture
def uv(monkeypatch):
    """A stand-in for uv: it writes `output`, and returns `code`."""
    stub = SimpleNamespace(output="", code=0, command=[], preferred="")

    def run(command, cwd, env, **options):
        path = next(path for path in command if path.endswith(PINS[0]))
        stub.command, stub.preferred = command, open(path).read()
        open(path, "w").write(stub.output)
        return SimpleNamespace(returncode=stub.code)

    monkeypatch.setattr(pins, "index_settings", dict)
    monkeypatch.setattr(pins.subprocess, "run", run)
    return stub


def test_what_linux_alone_needs_is_left_to_pip(root, uv):
    before = (root / PINS[0]).read_text()
    kept = (
        "# header\nnumpy==2.4.6  # via torch\n"
        "appnope==1.0 ; sys_platform == 'darwin' or sys_platform == 'linux'  # via x\n"
        "pexpect==4.9.0 ; sys_platform != 'win32'  # via x\n"
    )
    uv.output = kept + "triton==3.7.1 ; python_version < '4' and sys_platform == 'linux'  # via x\n"
    compile_pins(["numpy"], root)
    assert (root / PINS[0]).read_text() == kept
    assert uv.preferred == before and "--upgrade-package=numpy" in uv.command


def test_failing_uv_leaves_the_pins(root, uv):
    before = (root / PINS[0]).read_text()
    uv.code = 1
    with pytest.raises(BookError) as error:
        compile_pins(root=root)
    assert_one_line(str(error.value), f"{NAMED}: ", "unchanged")
    assert (root / PINS[0]).read_text() == before


def test_uv_reaches_the_index_that_pip_was_given(tmp_path, monkeypatch):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://one.example/simple\nextra-index-url = https://b.example\n"
        "[install]\nindex-url = https://two.example/simple\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_CERT", "/certificates")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    settings = index_settings()
    assert settings["UV_DEFAULT_INDEX"] == "https://two.example/simple"
    assert settings["SSL_CERT_FILE"] == "/certificates"
    assert not [value for value in settings.values() if "b.example" in value]


def test_uv_compiles(tmp_path, monkeypatch):
    """Without a network, from a folder of one wheel."""
    if find_spec("uv") is None:
        pytest.skip("no uv in this environment: 'make environment'")
    with zipfile.ZipFile(tmp_path / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Name: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (tmp_path / NAMED).write_text("tiny  # as an example\n")
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    compile_pins(root=tmp_path)
    pin = re.sub("  +", "  ", (tmp_path / PINS[0]).read_text().splitlines()[-1])
    assert pin == f"tiny==1.0  # via -r {NAMED}"
