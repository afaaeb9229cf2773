"""Data flows one way: a module imports only from those before it."""

import ast

from helpers import ROOT

CUDASIM = ROOT / "cudasim"

# Of tools/; each may use those before it.
LAYERS = (
    *("errors", "root", "environment", "files", "book", "rules", "record", "site"),
    *("exercises", "grade", "others"),
)


def imported(path):
    """Every module that a file imports, inside of functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{'.' * node.level}{node.module or ''}"


def layer(module):
    """The layer of a module `tools.<part>...`."""
    part = module.split(".")[1]
    return LAYERS.index(part if part in LAYERS else "others")


def backward(path, root):
    """What a file of `root/tools` imports that is not before it: a later layer, or a test."""
    own = layer(".".join(path.relative_to(root).with_suffix("").parts))
    return [
        name
        for name in imported(path)
        if name.startswith("..")
        or name.split(".")[0] in ("tests", "helpers", "cudasim", "kernels")
        or (name.startswith("tools.") and layer(name) > own)
    ]


def test_modules_import_only_what_comes_before_them():
    paths = sorted((ROOT / "tools").rglob("*.py"))
    assert paths and {path: back for path in paths if (back := backward(path, ROOT))} == {}


def test_a_step_back_is_found_inside_of_a_function_too(tmp_path):
    path = tmp_path / "tools" / "record" / "record.py"
    path.parent.mkdir(parents=True)
    path.write_text("import cudasim\ndef f():\n    import tools.site.site, tools.files\n")
    assert backward(path, tmp_path) == ["cudasim", "tools.site.site"]


def test_the_simulator_knows_nothing_of_the_book():
    files = [
        path for name in ("src", "fidelity", "tests") for path in CUDASIM.glob(f"{name}/**/*.py")
    ]
    firsts = {name.split(".")[0] for path in files for name in imported(path)}
    assert files and not firsts & {"tools", "book", "kernels", "helpers"}
