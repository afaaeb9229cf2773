"""Answers to one exercise that are nearly the same, in figures that instructors understand.

An answer is its lines, in no order, without names of its own, comments, docstrings, annotations,
layout, what was given and what most of the class wrote. Two are listed where they are long and the
same, or nearly all lines of the shorter stand in the other and several of these in hardly any
third, or where they are of middle length, the same, and odd. What is shorter says nothing by
itself: `coursework.grade.copies` weighs it over whole notebooks.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from coursework.grade.source import UNREADABLE, tree_of

LEAST = 8  # lines of its own, or an answer is too short to tell
SAME = 0.8  # of the lines of the shorter answer
ALONE = 4  # of these lines stand in hardly any other answer:
FEW = 8  # have them at most, in a large class 2 in 100
COMMON = 0.5  # of a class: a line that more of it wrote says nothing, from TELLING submissions on
TELLING = 8
ODD = 5  # lines tell enough where ALONE of them stand in no more than 1 of ODD_SHARE answers
ODD_SHARE = 20

Line = tuple[str, int]  # what stands in it, and how often it stood above
Lines = frozenset[Line]


@dataclass(frozen=True)
class Group:
    exercise: int
    submissions: tuple[str, ...]
    same: int  # lines, of the two that are least alike among those that were joined
    lines: int  # of the shorter of the two

    @property
    def exercises(self) -> tuple[int, ...]:
        return (self.exercise,)

    @property
    def text(self) -> str:
        least = "at least " * (len(self.submissions) > 2 and self.same < self.lines)
        count = f"{least}{self.same} of {self.lines}"
        return f"{count} lines are the same once names and comments are put aside"


# --- lines


def lines_of(source: str) -> Counter[str]:
    """How often each line stands in some code, names of its own put aside; none if unreadable."""
    tree = tree_of(source)
    if tree is None:
        return Counter()
    _strip_notes(tree)
    _rename(tree)
    try:
        text = ast.unparse(tree)
    except UNREADABLE:
        return Counter()
    lines = (line.strip().replace("_: _", "_") for line in text.splitlines())
    return Counter(line for line in lines if line not in ("", "pass"))


def _strip_notes(tree: ast.Module) -> None:
    """Take away annotations and docstrings, which can be changed and change nothing."""
    for node in ast.walk(tree):
        match node:
            case ast.arg():
                node.annotation = None
            case ast.AnnAssign():
                node.annotation = ast.Name("_")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                node.returns = None
                if ast.get_docstring(node) is not None:
                    node.body[0] = ast.Pass()


def _rename(tree: ast.Module) -> None:
    """Write `_` for every name that the code makes, and for an import's alias what it stands for.

    Attributes and keywords stay: `device` may be a parameter, and `x.device` is PyTorch's.
    """
    nodes = list(ast.walk(tree))
    names: dict[str, str] = {}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names[name] = "_"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names[name] = "_"
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                names[name] = "_"
    for node in nodes:
        if isinstance(node, ast.alias) and node.asname:
            names.setdefault(node.asname, node.name)
            node.asname = None
    for node in nodes:
        match node:
            case ast.Name():
                node.id = names.get(node.id, node.id)
            case ast.arg():
                node.arg = "_"
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                node.name = "_"
            case ast.ExceptHandler(name=str()):
                node.name = "_"
            case ast.Global() | ast.Nonlocal():
                node.names = [names.get(name, name) for name in node.names]


def own_lines(
    answers: Mapping[str, Mapping[str, int]], given: Iterable[str]
) -> dict[str, Lines]:
    """The lines of each answer, as `lines_of` counts them, that are not in the `given` code."""
    known: Counter[str] = Counter()
    for source in given:
        known |= lines_of(source)
    own = {}
    for submission, counts in sorted(answers.items()):
        left = Counter(counts) - known
        own[submission] = frozenset(
            (line, nth) for line, n in left.items() for nth in range(n)
        )
    return own


# --- groups


class Links:
    """Things that belong together, joined two by two."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def head(self, thing: Hashable) -> Hashable:
        path = []
        while (above := self._above.get(thing, thing)) != thing:
            path.append(thing)
            thing = above
        for below in path:
            self._above[below] = thing
        return thing

    def join(self, a: Hashable, b: Hashable) -> None:
        first, second = self.head(a), self.head(b)
        self._above.setdefault(first, first)
        self._above[second] = first

    def groups(self) -> list[list]:
        members = defaultdict(list)
        for thing in self._above:
            members[self.head(thing)].append(thing)
        return list(members.values())


def same_forms(own: Mapping[str, Hashable]) -> dict[Hashable, list[str]]:
    """Who has each form; what is empty is none."""
    holders = defaultdict(list)
    for submission, form in own.items():
        if form:
            holders[form].append(submission)
    return dict(holders)


def similar(number: int, own: Mapping[str, Lines]) -> list[Group]:
    """The groups among the answers to an exercise, by their `own_lines`."""
    forms = same_forms(own)
    count = Counter(line for lines in own.values() for line in lines)
    rare = {
        line for line, holders in count.items() if holders <= max(FEW, len(own) // 50)
    }
    odd = {line for line, holders in count.items() if holders <= len(own) // ODD_SHARE}
    most = COMMON * len(own) if len(own) >= TELLING else len(own)
    telling = {form: {line for line in form if count[line] <= most} for form in forms}

    links = Links()
    alike: dict[Lines, list[tuple[int, int]]] = defaultdict(
        list
    )  # lines the same, of how many
    for form, submissions in forms.items():
        tells = len(form) >= LEAST or (len(form) >= ODD and len(form & odd) >= ALONE)
        if len(submissions) > 1 and tells:
            links.join(form, form)
            alike[form].append((len(form), len(form)))
    for first, second in _sharing(forms, rare):
        shorter = min(len(telling[first]), len(telling[second]))
        same = len(telling[first] & telling[second])
        if shorter >= LEAST and same >= SAME * shorter:
            links.join(first, second)
            alike[first].append((same, shorter))

    groups = []
    for joined in links.groups():
        submissions = sorted(who for form in joined for who in forms[form])
        pairs = [pair for form in joined for pair in alike[form]]
        same, lines = min(pairs, key=lambda pair: (pair[0] / pair[1], pair))
        groups.append(Group(number, tuple(submissions), same, lines))
    return sorted(
        groups, key=lambda group: (-len(group.submissions), group.submissions)
    )


def _sharing(
    forms: Collection[Lines], rare: Collection[Line]
) -> list[tuple[Lines, Lines]]:
    """Pairs of forms that share ALONE rare lines. Few forms have such a line, so they are few."""
    numbered = list(forms)
    holders = defaultdict(list)
    for place, form in enumerate(numbered):
        for line in form & rare:
            holders[line].append(place)
    shared = Counter(
        pair for places in holders.values() for pair in combinations(places, 2)
    )
    pairs = sorted(pair for pair, times in shared.items() if times >= ALONE)
    return [(numbered[a], numbered[b]) for a, b in pairs]
