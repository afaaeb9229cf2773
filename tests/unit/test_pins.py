"""The pins agree with what they are compiled from."""

import re

from helpers import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.environment import REQUIREMENTS

NAMED = "requirements.in"


def requirements(path):
    """Return the requirements of a file by normalised name, each with its comment."""
    requirements = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        text, _, comment = line.partition("#")
        if text.strip():
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            requirements[name] = (requirement, comment)
    return requirements


def test_pins_are_compiled_from_what_we_name():
    named = requirements(ROOT / NAMED)
    compiled = requirements(ROOT / REQUIREMENTS[0])
    for name, (_, comment) in compiled.items():
        assert (f"-r {NAMED}" in comment) == (name in named), name
        # A pin of a CUDA package would be installed next to a CPU build of torch, too.
        # nvidia-ml-py is Python alone.
        assert not re.match("nvidia-(?!ml-py)|cuda|triton", name)
    for name, (wanted, reason) in named.items():
        pin, _ = compiled[name]
        version = str(pin.specifier).removeprefix("==")
        assert wanted.specifier.contains(version), name
        assert pin.marker == wanted.marker, name
        assert reason.strip(), name
