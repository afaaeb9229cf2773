"""The pins agree with what they are compiled from."""

import re

from helpers import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.environment import PINS

NAMED = "requirements.in"


def requirements(path):
    """The requirements of a file by normalised name, and the comment after each."""
    pairs = (
        line.partition("#") for line in path.read_text(encoding="utf-8").splitlines()
    )
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
