"""Answers of different students that are nearly the same, in figures that instructors understand.

An answer is its lines, in no order, without names of its own, comments, docstrings, annotations,
layout, what was given and what most of the class wrote. Two are shown where they are the same, or
nearly all lines of the shorter stand in the other and several of these in hardly any third.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from tools.grade.source import UNREADABLE, tree_of

LEAST = 8  # lines of its own, or an answer is too short to tell
SAME = 0.8  # of the lines of the shorter answer
ALONE = 4  # of these lines stand in hardly any other answer:
FEW = 8  # have them at most, in a large class 2 in 100
COMMON = 0.5  # of a class: a line that more of it wrote says nothing, from TELLING submissions on
TELLING = 8
PUBLISHED = "the published solution"  # stands among the submissions


@dataclass(frozen=True)
class Group:
    exercise: int
    submissions: tuple[str, ...]
    same: int  # lines, of the two that are least alike among those that were joined
    lines: int  # of the shorter of the two

    @property
    def text(self) -> str:
        count = "at least " * (len(self.submissions) > 2) + f"{self.same} of {self.lines}"
        return f"{count} lines are the same once names and comments are put aside"


def lines_of(source: str) -> Counter[str]:
    """How often each line stands in some code, names of its own put aside; none if unreadable."""
    tree, own = tree_of(source), {"_"}
    for node in ast.walk(tree or ast.Module([], [])):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                own.add(name)
                node.annotation = None
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
                node.returns = None
                if ast.get_docstring(node) is not None:
                    node.body[0] = ast.Pass()
            case ast.AnnAssign():
                node.annotation = ast.Name("_")
    try:
        text = ast.unparse(tree) if tree else ""
    except UNREADABLE:
        return Counter()
    text = re.sub(rf"\b({'|'.join(map(re.escape, own))})\b", "_", text).replace("_: _", "_")
    return Counter(line.strip() for line in text.splitlines() if line.strip() not in ("", "pass"))


def similar(number: int, answers: Mapping[str, Counter[str]], given: Iterable[str]) -> list[Group]:
    """The groups among answers, as `lines_of` has them; `given` is code that all got."""
    known = Counter()
    for source in given:
        known |= lines_of(source)
    own = {  # a line that stands twice is two
        id: frozenset((line, nth) for line, n in (found - known).items() for nth in range(n))
        for id, found in sorted(answers.items())
    }
    holders = Counter(line for lines in own.values() for line in lines)
    most = COMMON * len(own) if len(own) >= TELLING else len(own)
    rare = {line for line, count in holders.items() if count <= max(FEW, len(own) // 50)}
    telling = {id: frozenset(x for x in lines if holders[x] <= most) for id, lines in own.items()}
    groups: list[Group] = []
    for a, b in combinations(own, 2):
        equal = own[a] == own[b]
        first, second = ((own if equal else telling)[id] for id in (a, b))
        shared, shorter = first & second, min(len(first), len(second))
        is_alike = shorter >= LEAST and len(shared) >= SAME * shorter
        if is_alike and (equal or len(shared & rare) >= ALONE):
            joined = [group for group in groups if {a, b} & {*group.submissions}]
            who = {a, b}.union(*(group.submissions for group in joined))
            made = [Group(number, (), len(shared), shorter), *joined]
            least = min(made, key=lambda group: group.same / group.lines)
            groups = [group for group in groups if group not in joined]
            groups.append(replace(least, submissions=tuple(sorted(who))))
    return sorted(groups, key=lambda group: (-len(group.submissions), group.submissions))
