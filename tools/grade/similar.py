"""Answers of different students that are nearly the same, in figures that instructors understand.

An answer is its lines with names of its own, comments, docstrings, annotations and layout put
aside, in no order. What was given is taken out, and what most of the class wrote. Two answers are
shown where they are the same, or where nearly all lines of the shorter one stand in the other and
several of these in hardly any third.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from tools.grade.source import tree_of

LEAST = 8  # lines of its own, or an answer is too short to tell
SAME = 0.8  # of the lines of the shorter answer
ALONE = 4  # of these lines stand in hardly any other answer:
FEW = 8  # have them at most, in a large class 2 in 100
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


def lines_of(source: str) -> Counter[str]:
    """How often each line stands in some code, names of its own put aside; none if unreadable."""
    tree = tree_of(source)
    if tree is None:
        return Counter()
    own = {"_"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.ClassDef(name=name):
                own.add(name)
            case ast.FunctionDef(name=name):
                own.add(name)
                node.returns = None
            case ast.arg(arg=name):
                own.add(name)
                node.annotation = None
            case ast.AnnAssign():
                node.annotation = ast.Name("_")
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    try:
        text = ast.unparse(tree)
    except (RecursionError, ValueError):
        return Counter()
    text = re.sub(rf"\b({'|'.join(map(re.escape, own))})\b", "_", text).replace("_: _", "_")
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
    own = {  # a line that stands twice is two
        id: frozenset((line, nth) for line, n in (found - known).items() for nth in range(n))
        for id, found in sorted(answers.items())
    }
    holders = Counter(line for lines in own.values() for line in lines)
    most = COMMON * len(own) if len(own) >= TELLING else len(own)
    rare = {line for line, count in holders.items() if count <= max(FEW, len(own) // 50)}
    telling = {id: frozenset(x for x in lines if holders[x] <= most) for id, lines in own.items()}
    alike: list[tuple[set[str], float, int, int]] = []  # who, then of the two least alike
    for first, second in combinations(own, 2):
        lines = own if own[first] == own[second] else telling
        shared, shorter = lines[first] & lines[second], min(len(lines[first]), len(lines[second]))
        same = len(shared)
        alone = lines is own or len(shared & rare) >= ALONE
        if shorter >= LEAST and same >= SAME * shorter and alone:
            joined = [one for one in alike if {first, second} & one[0]]
            alike = [one for one in alike if one not in joined]
            who = {first, second}.union(*(one[0] for one in joined))
            figures = [(same / shorter, same, shorter), *(one[1:] for one in joined)]
            alike.append((who, *min(figures)))
    found = [Group(exercise, tuple(sorted(who)), same, of) for who, _, same, of in alike]
    return sorted(found, key=lambda one: (-len(one.submissions), one.submissions))
