"""Answers of different students that are nearly the same, in figures that instructors understand.

An answer is its lines with names of its own, comments, docstrings, annotations and layout put
aside, in no order. What was given is taken out, and what most of the class wrote. Two answers are
shown where nearly all lines of the shorter one stand in the other and several of these stand in
hardly any other: the work grows with the class, not with its pairs.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from tools.grade.source import tree_of

LEAST = 8  # lines of its own, or an answer is too short to tell
SAME = 0.8  # of the lines of the shorter answer
ALONE = 4  # lines that only the two, or the group that they are in, have
FEW = 8  # submissions that may share a rare line; in a large class 2 in 100
COMMON = 0.5  # of a class: a line that more of it wrote says nothing, from TELLING submissions on
TELLING = 8


PUBLISHED = "the published solution"  # stands among the submissions


@dataclass(frozen=True)
class Group:
    """Submissions whose answers to one exercise are nearly the same, each as another of them."""

    exercise: int
    submissions: tuple[str, ...]
    same: int  # lines, of the two that are least alike among those that were joined
    lines: int  # of the shorter of the two

    @property
    def text(self) -> str:
        """The figures in words."""
        least = "at least " if len(self.submissions) > 2 else ""
        return (
            f"{least}{self.same} of {self.lines} lines are the same once names and comments are "
            "put aside"
        )


class _Plain(ast.NodeTransformer):
    """Puts aside names that the code makes itself, annotations and docstrings."""

    def __init__(self, own: set[str]) -> None:
        self.own = own

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_", node.ctx) if node.id in self.own else node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg("_")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value, lineno=0) if node.value else None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.name = "_" if node.name in self.own else node.name
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "_" if node.name in self.own else node.name
        return self._without_docstring(node)

    def _without_docstring(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                node.body = rest or [ast.Pass()]
        return node


def lines_of(source: str) -> Counter[str]:
    """How often each line stands in some code, names of its own put aside; none if unreadable."""
    tree = tree_of(source)
    if tree is None:
        return Counter()
    own = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                own.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
    try:
        text = ast.unparse(_Plain(own).visit(tree))
    except (RecursionError, ValueError):
        return Counter()
    return Counter(line.strip() for line in text.splitlines() if line.strip())


def similar(
    exercise: int, answers: Mapping[str, Counter[str]], given: Iterable[str]
) -> list[Group]:
    """The groups among the answers to one exercise, as `lines_of` has them, by submission.

    `given` is code that all got.
    """
    known = Counter()
    for source in given:
        known |= lines_of(source)
    lines = {id: own - known for id, own in sorted(answers.items())}
    joined = [*_identical(lines), *_near(lines)]
    group = _groups([pair[:2] for pair in joined])
    members: dict[str, list[str]] = defaultdict(list)
    for id, first in sorted(group.items()):
        members[first].append(id)
    least = {}
    for first, _, same, shorter in sorted(joined, key=lambda pair: -pair[2] / pair[3]):
        least[group[first]] = (same, shorter)
    found = [Group(exercise, tuple(ids), *least[first]) for first, ids in members.items()]
    return sorted(found, key=lambda one: (-len(one.submissions), one.submissions))


Joined = tuple[str, str, int, int]  # two submissions, the lines that are the same, of how many


def _identical(lines: Mapping[str, Counter[str]]) -> Iterator[Joined]:
    """Answers that are the same, however many: each with the next."""
    alike: dict[frozenset, list[str]] = defaultdict(list)
    for id, own in lines.items():
        if own.total() >= LEAST:
            alike[frozenset(own.items())].append(id)
    for ids in alike.values():
        for first, second in pairwise(ids):
            yield first, second, lines[first].total(), lines[first].total()


def _near(lines: Mapping[str, Counter[str]]) -> list[Joined]:
    """Pairs that share nearly all lines of the shorter one, and some that hardly anybody has."""
    held = Counter(line for own in lines.values() for line in own)
    if len(lines) >= TELLING:
        common = {line for line, count in held.items() if count > COMMON * len(lines)}
        lines = {
            id: Counter({line: n for line, n in own.items() if line not in common})
            for id, own in lines.items()
        }
    few = max(FEW, len(lines) // 50)
    lines = {id: own for id, own in lines.items() if own.total() >= LEAST}
    holders: dict[str, list[str]] = defaultdict(list)
    for id, own in lines.items():
        for line in own:
            holders[line].append(id)
    candidates: Counter[tuple[str, str]] = Counter()
    for ids in holders.values():
        if 2 <= len(ids) <= few:
            # All pairs of a few; of more, each with the next, which joins the group as well.
            candidates.update(combinations(ids, 2) if len(ids) <= FEW else pairwise(ids))
    found = []
    for (first, second), shared in candidates.items():
        shorter = min(lines[first].total(), lines[second].total())
        same = (lines[first] & lines[second]).total()
        if shared >= ALONE and same >= SAME * shorter:
            found.append((first, second, same, shorter))
    group = _groups([pair[:2] for pair in found])

    def alone(first: str, second: str) -> int:
        """Lines of the two that only their group has."""
        both = (lines[first] & lines[second]).items()
        own = group[first]
        return sum(n for line, n in both if all(group.get(id) == own for id in holders[line]))

    return [pair for pair in found if alone(*pair[:2]) >= ALONE]


def _groups(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each submission in a pair, the first of all that are joined to it by pairs."""
    group: dict[str, str] = {}

    def top(id: str) -> str:
        while group.setdefault(id, id) != id:
            group[id] = group[group[id]]
            id = group[id]
        return id

    for first, second in pairs:
        low, high = sorted((top(first), top(second)))
        group[high] = low
    return {id: top(id) for id in group}
