"""Answers to one exercise that are nearly the same, in figures that instructors understand.

An answer is compared by its lines, in any order. Put aside are names of its own, comments,
docstrings, annotations and layout, lines that were given, and lines that most of the
class wrote. Two answers are listed

- if they are long and the same,
- if nearly all lines of the shorter stand in the other, and several of these in hardly
  any third answer,
- or if they are of middle length and the same, and several of their lines are odd.

Shorter answers say nothing by themselves; `coursework.grade.copies` compares whole
notebooks.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from coursework.grade.student_code import UNREADABLE, tree_of

# A long answer has so many lines of its own,
LONG = 8
SAME_SHARE = 0.8  # and shares so many of the lines of the shorter,
SHARED_RARE = 4  # of which so many are rare:
RARE = 8  # no more answers have them, in a large class 2 in 100.
# A line that more than half of a class wrote says nothing, if the class is so large.
COMMON_SHARE = 0.5
LARGE_CLASS = 8
# An answer of middle length has so many lines. SHARED_RARE of them are odd: no more than
# 1 of ODD_SHARE answers has them.
MIDDLE = 5
ODD_SHARE = 20

Line = tuple[str, int]  # its text, and how often the same stood above it
Lines = frozenset[Line]


@dataclass(frozen=True)
class AnswerGroup:
    """Submissions whose answers to an exercise are nearly the same."""

    exercise: int
    submissions: tuple[str, ...]
    # Of the two that are least alike, among those that were compared:
    same: int  # lines
    lines: int  # of the shorter

    @property
    def exercises(self) -> tuple[int, ...]:
        return (self.exercise,)

    @property
    def text(self) -> str:
        count = f"{self.same} of {self.lines}"
        if len(self.submissions) > 2 and self.same < self.lines:
            count = f"at least {count}"
        return f"{count} lines are the same when names and comments are ignored"


# --- lines


def lines_of(source: str) -> Counter[str]:
    """Count the lines of some code, with names of its own put aside.

    Code that cannot be read has none.
    """
    tree = tree_of(source)
    if tree is None:
        return Counter()
    _strip_notes(tree)
    _rename(tree)
    try:
        text = ast.unparse(tree)
    except UNREADABLE:
        return Counter()

    lines: Counter[str] = Counter()
    for line in text.splitlines():
        plain = line.strip().replace("_: _", "_")
        if plain not in ("", "pass"):
            lines[plain] += 1
    return lines


def _strip_notes(tree: ast.Module) -> None:
    """Take away annotations and docstrings, which change nothing."""
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
    """Write `_` for each name that the code makes, and the module's name for its alias.

    Attributes and keywords stay: `device` may be a parameter, and `x.device` is PyTorch's.
    """
    nodes = list(ast.walk(tree))
    names = _new_names(nodes)
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
            case ast.alias():
                node.asname = None


def _new_names(nodes: list[ast.AST]) -> dict[str, str]:
    """Return what to write in place of names."""
    names = {}
    aliases = {}
    for node in nodes:
        match node:
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
            ):
                names[name] = "_"
            case ast.alias(name=name, asname=str(alias)):
                aliases.setdefault(alias, name)
    return aliases | names


def own_lines(
    answers: Mapping[str, Mapping[str, int]], given: Iterable[str]
) -> dict[str, Lines]:
    """Return the lines of each answer that are not in the `given` code.

    `answers` are counts as those of `lines_of`, by submission.
    """
    known: Counter[str] = Counter()
    for source in given:
        known |= lines_of(source)

    own = {}
    for submission, counts in sorted(answers.items()):
        lines = set()
        for text, count in (Counter(counts) - known).items():
            for above in range(count):
                lines.add((text, above))
        own[submission] = frozenset(lines)
    return own


# --- groups


def joined(pairs: Iterable[tuple[Hashable, Hashable]]) -> list[list]:
    """Return the groups that pairs form. A thing that is paired with itself is a group."""
    group_of: dict[Hashable, list] = {}
    for a, b in pairs:
        group = group_of.setdefault(a, [a])
        other = group_of.setdefault(b, [b])
        if group is other:
            continue
        if len(group) < len(other):  # move the fewer
            group, other = other, group
        group += other
        for member in other:
            group_of[member] = group

    groups = {id(group): group for group in group_of.values()}
    return list(groups.values())


def holders_of(forms: Mapping[str, Hashable]) -> dict[Hashable, list[str]]:
    """Return the submissions that have each form, for which an empty one does not count."""
    holders = defaultdict(list)
    for submission, form in forms.items():
        if form:
            holders[form].append(submission)
    return dict(holders)


def by_size(groups: Iterable) -> list:
    """Sort groups of submissions, the largest first."""
    return sorted(
        groups, key=lambda group: (-len(group.submissions), group.submissions)
    )


def similar_answers(exercise: int, own: Mapping[str, Lines]) -> list[AnswerGroup]:
    """Return the groups among the answers to an exercise, by their `own_lines`."""
    holders = holders_of(own)
    count: Counter[Line] = Counter()
    for lines in own.values():
        count.update(lines)
    common = COMMON_SHARE * len(own) if len(own) >= LARGE_CLASS else len(own)
    rare = _lines_up_to(max(RARE, len(own) // 50), count)
    odd = _lines_up_to(len(own) // ODD_SHARE, count)
    telling = _lines_up_to(common, count)

    links: list[tuple[Lines, Lines]] = []
    # By the first form of each link, how many lines are the same, and of how many.
    figures: dict[Lines, list[tuple[int, int]]] = defaultdict(list)
    for form, submissions in holders.items():
        is_odd = len(form) >= MIDDLE and len(form & odd) >= SHARED_RARE
        if len(submissions) > 1 and (len(form) >= LONG or is_odd):
            links.append((form, form))
            figures[form].append((len(form), len(form)))
    for first, second in _sharing(holders, rare):
        shorter = min(len(first & telling), len(second & telling))
        same = len(first & second & telling)
        if shorter >= LONG and same >= SAME_SHARE * shorter:
            links.append((first, second))
            figures[first].append((same, shorter))

    groups = []
    for forms in joined(links):
        submissions = []
        counts = []
        for form in forms:
            submissions += holders[form]
            counts += figures[form]
        same, lines = min(counts, key=lambda count: (count[0] / count[1], count))
        groups.append(AnswerGroup(exercise, tuple(sorted(submissions)), same, lines))
    return by_size(groups)


def _lines_up_to(most: float, count: Counter[Line]) -> set[Line]:
    """Return the lines that no more than so many answers have."""
    return {line for line, answers in count.items() if answers <= most}


def _sharing(
    forms: Collection[Lines], rare: Collection[Line]
) -> list[tuple[Lines, Lines]]:
    """Return the pairs of forms that share SHARED_RARE rare lines.

    Few forms have such a line, so these are few.
    """
    numbered = list(forms)
    holders = defaultdict(list)
    for number, form in enumerate(numbered):
        for line in form & rare:
            holders[line].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in holders.values():
        shared.update(combinations(numbers, 2))
    pairs = sorted(pair for pair, lines in shared.items() if lines >= SHARED_RARE)
    return [(numbered[a], numbered[b]) for a, b in pairs]
