"""Folded solutions: each is run after its chapter and meets what its exercise says must hold."""

import re

import pytest
from bs4 import BeautifulSoup
from helpers import CHAPTERS, ROOT, code, notebook, read
from markdown_it import MarkdownIt
from nbclient import NotebookClient

from tools.source.chapters import SETUP
from tools.source.notebooks import code_cells, tags

# What "It holds when" says of each exercise with a solution, as code.
CHECKS = {
    ("computing-devices", 1): """
devices = ['cpu', 'cuda', torch.device('cuda:1'), 'mps']
assert [device_kind(each) for each in devices] == ['host', 'card', 'card', 'card']
""",
    ("computing-devices", 2): """
def dealt(n):
    devices = try_all_gpus()
    return [share(n)[device] == list(range(i, n, len(devices)))
            for i, device in enumerate(devices)]

assert all(dealt(7))
assert num_gpus() > 0 or share(3) == {cpu(): [0, 1, 2]}
own, try_all_gpus = try_all_gpus, lambda: [gpu(0), gpu(1)]
two = dealt(7)
try_all_gpus = own
assert two == [True, True]
""",
    ("tensors-on-gpus", 1): """
assert devices_of(X) == {X.device}
assert devices_of(X, M) == {X.device, M.device}
assert devices_of() == set()
""",
    ("tensors-on-gpus", 2): """
assert torch.equal(add(X, X), X + X)
try:
    add(X, M)
except ValueError as error:
    assert str(X.device) in str(error) and 'meta' in str(error)
else:
    raise AssertionError('no error')
""",
    ("copying-between-devices", 1): """
Z = torch.ones(2, 3, device=device0)
assert len(new) == 5
odd = [line for line in new if (eval(line) is not Z) != new[line]]
assert odd == (['Z.cpu()'] if device0.type == 'cpu' else [])
""",
    ("copying-between-devices", 2): """
places = device0, device1, torch.device('cpu')
for home, device in [(home, device) for home in places for device in places]:
    tensor = torch.arange(6.0, device=home)
    result = scaled(tensor, device)
    assert tensor.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert torch.equal(result.cpu(), 2 * tensor.cpu()) and result.device == device
""",
    ("neural-networks-on-gpus", 1): """
small = nn.Linear(2, 1)
small.register_buffer('known', torch.ones(1))
small.plain = torch.ones(1)
optimizer = torch.optim.Adam(small.parameters())
small(torch.ones(1, 2)).sum().backward()
optimizer.step()
average = optimizer.state[small.weight]['exp_avg']
small.to('meta')
found = {'parameter': small.weight, 'buffer': small.known, 'plain': small.plain,
         'gradient': small.weight.grad, 'optimizer': average}
assert moves == {name: tensor.is_meta for name, tensor in found.items()}
""",
    ("neural-networks-on-gpus", 2): """
parameter, numbers = net[0].bias, read(net, '0.bias')
assert numbers == parameter.tolist()
write(net, '0.bias', numbers)
assert read(net, '0.bias') == numbers
write(net, '0.bias', [float(i) for i in range(8)])
assert read(net, '0.bias') == [float(i) for i in range(8)]
assert net[0].bias is parameter and parameter.device == device
for wrong in [1.0], [1.0] * 9, [[1.0] * 8]:
    try:
        write(net, '0.bias', wrong)
    except Exception:
        pass
    else:
        raise AssertionError(wrong)
    assert read(net, '0.bias') == [float(i) for i in range(8)]
""",
    ("what-costs-time", 1): """
X = torch.ones(4, device=device0)
mode = torch.cuda.set_sync_debug_mode
assert len(waits) == 6
for line in waits if on_gpu else []:
    mode('error')
    raised = isinstance(attempt(lambda: eval(line)), str)
    mode('default')
    assert raised == waits[line], line
assert [line for line in waits if waits[line]] == ['X.norm().item()', 'X[X > 0]', 'X.tolist()']
""",
    ("what-costs-time", 2): """
sheet = dict(zip(columns, sheets['T4']))
assert bound(1000, 12_000, 1, sheet) == 'asking'
assert bound(1e8, 12e8, 1, sheet) == 'memory'
assert bound(2 * 4096**3, 12 * 4096**2, 1, sheet) == 'arithmetic'
assert bound(2e9, 1.2e8, 1000, sheet) == 'asking'
""",
}
# Answers that a reader might give, which the checks must refuse.
WRONG = {
    ("computing-devices", 1): "device_kind = lambda x: 'card' if 'cuda' in str(x) else 'host'",
    ("computing-devices", 2): "share = lambda n: {each: list(range(n)) for each in try_all_gpus()}",
    ("tensors-on-gpus", 1): "devices_of = lambda *tensors: {str(t.device) for t in tensors}",
    ("tensors-on-gpus", 2): "add = lambda a, b: a + b",
    ("copying-between-devices", 1): "new = {'Z.to(Z.device)': True, "
    "'Z.to(Z.device, copy=True)': True, 'Z.cpu()': True, 'Z.clone()': True, "
    "'Z.to(torch.float64)': True}",
    ("copying-between-devices", 2): "pass",  # the chapter's own, which the exercise corrects
    ("neural-networks-on-gpus", 1): "moves = dict.fromkeys("
    "['parameter', 'buffer', 'plain', 'gradient', 'optimizer'], True)",
    ("neural-networks-on-gpus", 2): """
read = lambda net, name: net.get_parameter(name).tolist()
def write(net, name, numbers):
    net.get_parameter(name).data.copy_(torch.tensor(numbers))
""",
    ("what-costs-time", 1): "waits = {'X.norm()': False, 'X.norm().item()': True, "
    "'X.numel()': False, 'X[X > 0]': False, 'X.clamp(min=0)': False, 'X.tolist()': True}",
    ("what-costs-time", 2): """
def bound(flops, nbytes, operations, sheet):
    moving, computing = nbytes / (sheet['memory'] * 1e9), flops / (sheet['float32'] * 1e12)
    return 'memory' if moving > computing else 'arithmetic'
""",
}


def chapter_named(name):
    return read(ROOT / "notebooks" / f"{name}.ipynb")


def solutions(chapter):
    """The code of every solution of a chapter, by the number of its exercise."""
    found = {}
    for one in chapter.cells:
        if match := re.fullmatch(r"solution-(\d+)", one.id):
            page = BeautifulSoup(MarkdownIt("commonmark").render(one.source), "html.parser")
            [block] = page.select("details.solution > pre > code.language-python")
            found[int(match[1])] = block.get_text()
    return found


@pytest.fixture(params=CHAPTERS)
def name(request):
    return request.param


def execute(name, runner, folder):
    """The code of a chapter on a runner, then each exercise: wrong, checked; solved, checked."""
    chapter = chapter_named(name)
    cells = [each for each in code_cells(chapter) if SETUP not in tags(each)]
    for number, solution in solutions(chapter).items():
        check = CHECKS[name, number]
        cells += [code(f"wrong-{number}", WRONG[name, number]), code(f"refused-{number}", check)]
        cells += [code(f"right-{number}", solution), code(f"holds-{number}", check)]
    client = NotebookClient(
        notebook(*cells),
        kernel_name=runner,
        allow_errors=True,
        shutdown_kernel="immediate",  # else it waits five seconds for each kernel
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def test_first_exercises_have_a_solution_that_is_checked(name):
    chapter = chapter_named(name)
    checked = [number for named, number in CHECKS if named == name]
    assert sorted(solutions(chapter)) == checked == [1, 2]
    ids = [each.id for each in chapter.cells]
    for number in solutions(chapter):
        asked = chapter.cells[ids.index(f"solution-{number}") - 1].source
        assert re.findall(r"^\*\*(\d+)\. ", asked, re.M)[-1] == str(number)  # right above


@pytest.mark.parametrize("runner", ["cpu", "simulated"])
def test_solutions_hold_after_the_chapter_and_wrong_answers_are_refused(
    name, runner, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_PATH", str(ROOT))
    executed = execute(name, runner, tmp_path)
    errors = {
        each.id: f"{output.ename}: {output.evalue}"
        for each in executed.cells
        for output in each.outputs
        if output.output_type == "error"
    }
    assert errors.keys() == {"refused-1", "refused-2"}, errors


def test_solutions_fit_the_page_and_are_folded_code_on_it(site, name):
    page = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
    blocks = BeautifulSoup(page, "html.parser").select("details.solution:not([open]) pre")
    texts = [block.get_text() for block in blocks]
    assert texts == list(solutions(chapter_named(name)).values())
    assert [line for text in texts for line in text.splitlines() if len(line) > 76] == []
