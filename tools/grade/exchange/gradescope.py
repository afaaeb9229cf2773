"""An autograder for Gradescope: a zip with all that grading one assignment needs.

The same assignment gives the same bytes. The tests are in it, so it is for the instructor alone.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from tools.book.book import Book
from tools.errors import BookError
from tools.exercises.archive import zipped
from tools.exercises.assignment import Assignment, make_assignment
from tools.exercises.masters import read_master
from tools.exercises.variants import draws_of
from tools.files import read_text, write_bytes
from tools.root import ROOT

PROGRAM = "tools.grade.exchange.autograder.__main__"
HERE, SCRIPTS = "tools/grade/exchange/autograder", ("setup.sh", "run_autograder")
DATA = {  # what the program reads but does not import
    "tools/grade/sandbox": (".py",),
    "kernels": (".py", ".json"),
    "cudasim/src": (".py", ".json", "nvidia-smi"),
}
READERS = "binder/reader.txt"  # the packages that chapters import
SANDBOX = ("ipython", "pyseccomp")  # what is imported inside, beside those
NO_DEPS = "requirements-no-deps.txt"
TESTS = "private/assignment.json"  # readable by root alone
MODES = dict.fromkeys(SCRIPTS, 0o755) | {TESTS: 0o600}


def imports_of(path: Path) -> Iterator[str]:
    """What is imported with a module: not what its functions import when they are called."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_modules(name: str, root: Path = ROOT) -> set[str]:
    """The modules of this project that are imported with a module, itself among them."""
    found, left = set(), [name]
    while left:
        module = left.pop()
        path = path_of(module, root)
        if path is not None and module not in found:
            found.add(module)
            left += [*parents(module), *imports_of(path)]
    return found


def imported_packages(modules: Iterable[str], root: Path = ROOT) -> set[str]:
    """The packages that these modules import, by the names under which they are installed."""
    tops = {name.split(".")[0] for module in modules for name in imports_of(path_of(module, root))}
    installed = packages_distributions()
    return {installed[name][0] for name in tops - sys.stdlib_module_names - {"tools"}}


def parents(module: str) -> list[str]:
    """The packages that a module is in."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def path_of(module: str, root: Path = ROOT) -> Path | None:
    """The file of a module of this project."""
    if module.split(".")[0] != "tools":
        return None
    path = root.joinpath(*module.split("."))
    found = (path / "__init__.py", path.with_suffix(".py"))
    return next((path for path in found if path.is_file()), None)


def pins_of(names: Iterable[str], root: Path = ROOT) -> list[str]:
    """The lines of requirements.txt for these packages and what they need.

    The comments of requirements.txt say who needs each. Raises BookError if one is not pinned.
    """
    text = read_text(root / "requirements.txt", root)
    lines, needs = {}, {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(?P<name>[\w.-]+)==\S+(?: ;[^#]*\S)? *# via (?P<by>.*)", line):
            name = canonicalize_name(match["name"])
            lines[name] = line.partition("#")[0].strip()
            for by in match["by"].split(", "):
                needs.setdefault(by, set()).add(name)
    wanted, left = set(), [canonicalize_name(name) for name in names]
    while left:
        name = left.pop()
        if name not in lines:
            raise BookError(f"requirements.txt: grading needs {name}; name it in requirements.in")
        if name not in wanted:
            wanted.add(name)
            left += needs.get(name, ())
    return [lines[name] for name in sorted(wanted)]


def autograder_files(assignment: Assignment, root: Path = ROOT) -> dict[str, bytes]:
    """What is in the zip, by path. Raises BookError."""
    modules = imported_modules(PROGRAM, root)
    paths = {path_of(name, root) for name in modules}
    for folder, endings in DATA.items():
        found = (path for path in root.joinpath(folder).rglob("*") if path.is_file())
        paths |= {path for path in found if path.name.endswith(endings)}
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    for script in SCRIPTS:
        files[script] = root.joinpath(HERE, script).read_bytes()
    names = [*re.findall(r"^\w[\w.-]*", read_text(root / READERS, root), re.M), *SANDBOX]
    pins = "\n".join(pins_of([*names, *imported_packages(modules, root)], root)) + "\n"
    files["requirements.txt"] = pins.encode()
    files[NO_DEPS] = (root / NO_DEPS).read_bytes()
    files["uv.txt"] = "\n".join(pins_of(["uv"], root)).encode() + b"\n"
    files[TESTS] = json.dumps(assignment, indent=1, sort_keys=True).encode()
    return files


def make_autograder(chapter: str, key: str | None, masters: Path) -> Path:
    """Write the autograder of a chapter for a class; returns its path. Raises BookError."""
    path = masters / f"{chapter}.md"
    if not chapter or not path.is_file():
        names = ", ".join(sorted(path.stem for path in masters.glob("*.md"))) or "none"
        raise BookError(f"{masters}: no master '{chapter}'; name one with CHAPTER=: {names}")
    draws = draws_of(key)
    master = read_master(path, ROOT, draws.choose)
    assignment = make_assignment(master, Book(ROOT).chapters.get(chapter), draws)
    made = ROOT / "_build" / "gradescope" / f"{chapter}-{assignment['class']}.zip"
    write_bytes(made, zipped(autograder_files(assignment, ROOT), MODES), ROOT)
    return made
