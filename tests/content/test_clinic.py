"""The clinic: one script, mended from chapter to chapter, and one scoreboard that is carried on."""

import ast
import re
from functools import cache

import pytest
from helpers import ROOT, read

from tools.book.book import Book
from tools.book.chapters import Chapter
from tools.book.notebooks import tags

ORDER = (
    *("computing-devices", "tensors-on-gpus", "copying-between-devices"),
    *("neural-networks-on-gpus", "what-costs-time", "what-takes-memory"),
    "two-gpus-at-once",
)
WALK = "what-takes-memory"  # executes the script as it was found, and all twelve mends
DASH = "\N{EN DASH}"  # of the scoreboard: what this machine cannot tell
MENDED = re.compile(r"board(?:\[| = \{)'(\d+) ([^']+)'")
# What the script says where it is ill, and where it is well; "" is what stands nowhere.
FAULTS = {
    "a device that is not there": ("'cuda:7'", "device = try_gpu()"),
    "a tensor left behind": ("yield X, labels[i:i + size]\n", "sent(labels[i:i + size])"),
    "float64 by accident": ("model.double()", "pictures.float()"),
    "data copied one by one": ("row.to(device) for row in rows", "sent(rows)"),
    "a value read and printed at each step": ("print(f'step", ""),
    "pageable batches": ("", "pin_memory()"),
    "an optimizer made too early": (
        "lr=0.001)\n    model[-1] =",
        "model.to(device)\n    return model, torch.optim",
    ),
    "an evaluation without no_grad": ("", "@torch.no_grad()\ndef hit_rate"),
    "work repeated on the host": ("standardized(pictures)[i:i + size]", "rows = pictures[i:i"),
    "a batch far too small": ("size=8)", "size=64)"),
    "everything on one of two GPUs": ("hit_rate(model, *unseen)", "hit_rate(judge, *unseen)"),
    "a graph kept alive in a log": ("retain_graph=True", "losses.append(loss.detach())"),
}


@cache
def chapter(name):
    return Chapter(name, read(ROOT / "notebooks" / f"{name}.ipynb"))


@cache
def cells_of(name):
    return [cell for cell in chapter(name).code_cells if cell.id.startswith("clinic")]


def source_of(name, id):
    return next(cell.source for cell in cells_of(name) if cell.id == id)


def definitions(source):
    """What a text defines, by name: its functions, and what it assigns outside of them."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ast.unparse(node)
    return found


def whole_way():
    """The script as it was found, and the text of each mend by its name, of the walk."""
    said = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(source_of(WALK, "clinic-way")).body
        if isinstance(node, ast.Assign)
    }
    return said["FOUND"], said["MENDS"]


def after(number):
    """What the script defines when so many faults are mended."""
    found, mends = whole_way()
    script = definitions(found)
    for text in list(mends.values())[:number]:
        script |= definitions(text)
    return script


def mends_in(name):
    """The numbers and names of the versions that a chapter examines."""
    seen = {}
    for cell in cells_of(name):
        seen |= {int(number): f"{number} {what}" for number, what in MENDED.findall(cell.source)}
    return seen


def test_twelve_faults_are_there_in_the_first_version_and_gone_in_the_last():
    first, last = (text_after(number) for number in (0, 12))
    assert len(FAULTS) == len(whole_way()[1]) == 12
    for ill, well in FAULTS.values():
        assert not ill or (ill in first and ill not in last)
        assert not well or (well in last and well not in first)
        assert ill or well


def text_after(number):
    """The parts of the script as text, without those that a later mend replaces."""
    found, mends = whole_way()
    parts = {}
    for text in [found, *list(mends.values())[:number]]:
        lines, nodes = text.split("\n"), ast.parse(text).body
        for node in nodes:
            begin = min(each.lineno for each in [node, *getattr(node, "decorator_list", [])])
            (name,) = definitions(ast.unparse(node))
            parts[name] = "\n".join(lines[begin - 1 : node.end_lineno]) + "\n"
    return "\n".join(parts.values())


def test_the_first_chapter_shows_the_script_as_it_was_found():
    shown = {}
    for cell in cells_of(ORDER[0]):
        if "hide-input" not in tags(cell) and cell.id != "clinic-patient":
            for name, text in definitions(cell.source).items():
                shown.setdefault(name, text)
    wanted = after(0)
    assert {name: shown.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", ORDER[1:])
def test_a_chapter_begins_with_what_the_last_one_left(name):
    begins = min(mends_in(name))
    assert begins == max(mends_in(ORDER[ORDER.index(name) - 1]))
    assert definitions(source_of(name, "clinic-script")) == after(begins)


@pytest.mark.parametrize("name", ORDER)
def test_what_a_chapter_mends_is_what_the_walk_executes(name):
    mends = whole_way()[1]
    shown = [
        text
        for cell in cells_of(name)
        if "hide-input" not in tags(cell)
        for text in definitions(cell.source).values()
    ]
    mended = sorted(mends_in(name))[1:]
    assert mended
    if ORDER.index(name) > ORDER.index(WALK):  # what comes after the last mend mends nothing
        assert min(mended) > len(mends)
        return
    for number in mended:
        assert mends_in(name)[number] == list(mends)[number - 1]
        for text in definitions(list(mends.values())[number - 1]).values():
            assert text in shown


# The scoreboard


def rows_in(text):
    """The rows of a table in Markdown, by the first cell: from each head to what is below it."""
    heads, _, *rows = (
        [each.strip() for each in line.strip("|").split("|")] for line in text.strip().split("\n")
    )
    assert len(set(heads)) == len(heads)
    return {row[0]: dict(zip(heads[1:], row[1:], strict=True)) for row in rows}


def scoreboard(name, runner):
    """All rows that a chapter's clinic printed on a runner, in their order."""
    recording = Book().recording(runner, name)
    found = {}
    for cell in cells_of(name):
        for output in recording.cells[cell.id].outputs:
            text = output.get("data", {}).get("text/markdown", "")
            for version, row in (rows_in(text) if text else {}).items():
                assert {**found.get(version, {}), **row} == row, f"{version} has two values"
                found[version] = row
    return found


def broken_links(boards):
    """Where the scoreboards of chapters, one after the other, do not form a chain."""
    broken, so_far = [], {}
    for before, board in zip([None, *boards], boards, strict=False):
        begins = next(iter(board))
        last = max(before or [begins], key=lambda version: int(version.split()[0]))
        if begins not in ("0 as found", last):
            broken.append(f"begins with {begins}, after {last}")
        for version, row in board.items():
            known = so_far.setdefault(version, {})
            broken += [
                f"{version}: {head} is {row[head]}, was {known[head]}"
                for head in known.keys() & row.keys()
                if row[head] != known[head]
            ]
            known |= row
    return broken


def test_the_scoreboards_of_all_chapters_are_one_chain():
    boards = [scoreboard(name, "simulated") for name in ORDER]
    assert broken_links(boards) == []
    walk = boards[ORDER.index(WALK)]
    assert len(walk) == 13
    heads = list(next(iter(walk.values())))
    assert {"does it run", "peak on the first GPU", "copied a step", "waits a step"} < {*heads}
    ran = [row for row in walk.values() if row["does it run"] == "yes"]
    assert len(ran) == 11 and all(DASH not in row.values() for row in ran)


def test_the_second_gpu_of_a_step_that_is_bound_by_asking_makes_it_longer():
    """What the chapter on two GPUs finds, and why its version is the last and is not kept."""
    board = scoreboard(ORDER[-1], "simulated")
    before, both = (float(row["time a step"].strip("≈ ms")) for row in board.values())
    assert list(board) == ["12 a log without graphs", "13 both GPUs train"]
    assert both > 1.4 * before
    assert {row["waits a step"] for row in board.values()} == {"0.00"}


def test_the_cpu_has_a_dash_for_what_it_cannot_tell():
    for name in ORDER[1:]:
        for version, row in scoreboard(name, "cpu").items():
            assert row["does it run"] == "yes" or version == "0 as found"
            assert {row[head] for head in row if "GPU" in head or "copied" in head} <= {DASH}
            assert {row[head] for head in row if "waits" in head or "H100" in head} <= {DASH}


A = {"0 as found": {"peak": "2"}, "1 mended": {"peak": "1"}}


@pytest.mark.parametrize(
    ("board", "broken"),
    [
        ({"1 mended": {"peak": "1", "time": "3"}}, []),
        ({"1 mended": {"peak": "2"}}, ["1 mended: peak is 2, was 1"]),
        ({"2 more": {"peak": "1"}}, ["begins with 2 more, after 1 mended"]),
    ],
)
def test_a_broken_chain_is_noticed(board, broken):
    assert broken_links([A, board]) == broken


def test_rows_of_a_table():
    text = "| version | peak |\n| :-- | --: |\n| 1 mended | 2 MiB |"
    assert rows_in(text) == {"1 mended": {"peak": "2 MiB"}}
