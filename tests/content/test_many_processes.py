"""The chapter on many processes writes the scripts that it runs; train.py is tested elsewhere."""

from helpers import ROOT, read

NOTEBOOK = ROOT / "notebooks" / "many-processes-many-servers.ipynb"
SCRIPT = ROOT / "tests" / "distributed" / "train.py"
MAGIC = "%%writefile"


def written(cells):
    """The files that cells write, by name, as `%%writefile` and `%%writefile -a` make them."""
    files = {}
    for cell in cells:
        if cell.cell_type == "code" and cell.source.startswith(MAGIC):
            magic, _, body = cell.source.partition("\n")
            *option, name = magic.removeprefix(MAGIC).split()
            assert option == (["-a"] if name in files else []), f"{cell.id}: {magic}"
            files[name] = files.get(name, "") + body + ("" if body.endswith("\n") else "\n")
    return files


def test_train_is_the_script_that_is_tested():
    assert written(read(NOTEBOOK).cells)["train.py"] == SCRIPT.read_text(encoding="utf-8")


def test_a_cell_of_it_that_changes_is_noticed():
    cells = read(NOTEBOOK).cells
    cell = next(each for each in cells if "loss.backward()" in each.source)
    cell.source = cell.source.replace("optimizer.zero_grad()", "pass")
    assert written(cells)["train.py"] != SCRIPT.read_text(encoding="utf-8")


def test_train_has_under_a_hundred_lines():
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 100


def test_every_script_is_python():
    files = written(read(NOTEBOOK).cells)
    assert files.keys() == {"hello.py", "collectives.py", "ring.py", "train.py"}
    for name, text in files.items():
        compile(text, name, "exec")
