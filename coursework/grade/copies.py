"""Notebooks that agree more than chance would have it, and answers that do so by themselves.

A short answer proves nothing: many write the same line. But who agrees with another student in one
exercise after the other, and in answers that hardly anybody else gave, did not get there by chance.
So the evidence of a pair is added up over the exercises, in bits: an answer that 1 of 16 gave is
worth 4. What many gave is worth nothing, and each exercise in which the two differ takes some away.
Enough is what chance would give to one pair in ten classes of this size.

The same answers throughout weigh more, the more notebooks have them. There common answers count as
well, because their combination may be rare; but honest notebooks that are all alike stand in a
crowd of others that differ from them in one exercise, and copies do not.

The published solutions are one notebook more. Nothing here is a verdict.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from coursework.exercises.tasks import Assignment, Question
from coursework.grade.results import Grade
from coursework.grade.similar import (
    Group,
    Lines,
    Links,
    lines_of,
    own_lines,
    same_forms,
    similar,
)

PUBLISHED = "the published solution"  # stands among the submissions
COMMON = 0.1  # of a class: an answer that more of it gave is no evidence by itself,
CROWD = 3  # unless it is no more than these
A_LINE = (
    1  # bits that a line is worth above the first two, whatever the size of the class
)
MOST = 12  # bits for one answer
WORD_FOR_WORD, SAME, NEARLY, DIFFERENT = (
    0.5,
    0.35,
    0.1,
    0.05,
)  # how those who copy are taken to do
LEANING = (
    0.25  # good students give an answer at its rate in the class to this power, at most
)
SURE = math.log2(10)  # bits beyond those that the number of pairs asks for


@dataclass(frozen=True)
class Notebooks:
    """Submissions that agree over whole notebooks, with the figures of the two least alike."""

    submissions: tuple[str, ...]
    exercises: tuple[int, ...]  # in which the first two agree
    same: int  # answers, once names and comments are put aside
    answers: int  # that both have
    verbatim: int  # of those that are the same, names and comments included
    alone: int  # of those that are the same, in no notebook outside the group
    others: int  # notebooks outside the group that have the rarest of them

    @property
    def text(self) -> str:
        least = "at least " * (len(self.submissions) > 2 and self.same < self.answers)
        count = f"{least}{self.same} of {self.answers} answers are the same"
        details = ["once names and comments are put aside"]
        if self.verbatim:
            details.append(f"{self.verbatim} of them word for word")
        if self.alone:
            details.append(f"{self.alone} in no other notebook")
        else:
            details.append(f"the rarest of them in {self.others} other notebooks")
        return f"{count} {', '.join(details)}"


@dataclass(frozen=True)
class Short:
    """Answers to an exercise that equal another one and are too short to tell."""

    exercise: int
    answers: int
    published: int  # of them, equal to the published solution

    @property
    def text(self) -> str:
        if self.answers == 1:
            other = "the published solution" if self.published else "another one"
            return f"1 answer equals {other} and is too short to tell"
        text = f"{self.answers} answers equal another one"
        if self.published == self.answers:
            text = f"{self.answers} answers equal the published solution"
        elif self.published:
            text += f", {self.published} of them the published solution,"
        return f"{text} and are too short to tell"


@dataclass(frozen=True)
class Copies:
    notebooks: list[Notebooks] = field(default_factory=list)
    answers: list[Group] = field(default_factory=list)  # of exercises, beyond those
    short: list[Short] = field(default_factory=list)

    @property
    def groups(self) -> list[Notebooks | Group]:
        return [*self.notebooks, *self.answers]


def copies_in(assignment: Assignment, grades: Iterable[Grade]) -> Copies:
    """What of an assignment's results agrees, with each other and with the published solutions."""
    grades = list(grades)
    exercises = [
        _exercise(question, assignment, grades) for question in assignment.questions
    ]
    notebooks = Comparison(exercises).notebooks()
    together = [set(group.submissions) for group in notebooks]
    answers, short = [], []
    for exercise in exercises:
        answers += [
            group
            for group in exercise.groups
            if not any(own >= {*group.submissions} for own in together)
        ]
        listed = {who for group in exercise.groups for who in group.submissions}
        listed.update(*together)
        if count := exercise.short(listed):
            short.append(count)
    return Copies(notebooks, answers, short)


# --- an exercise


@dataclass
class Agreement:
    """Submissions whose answers to an exercise are alike, and what that is worth to two of them."""

    submissions: list[str]
    bits: float
    verbatim: bool


class Exercise:
    """The answers to one exercise, each in two forms: as it was typed, and by its own lines."""

    def __init__(
        self, number: int, lines: dict[str, Lines], typed: dict[str, tuple]
    ) -> None:
        self.number, self.lines, self.typed = number, lines, typed
        self.groups = similar(number, lines)
        self.answered = {who for who in typed if typed[who] or lines.get(who)}
        self.by_lines = same_forms(lines)
        self.by_text = same_forms(typed)
        self.near = {who: group for group in self.groups for who in group.submissions}

    def is_obvious(self, who: str) -> bool:
        """Is it one line, and the published one? The right word is the same for all."""
        own = self.lines.get(who)
        return own is not None and len(own) <= 1 and own == self.lines.get(PUBLISHED)

    def agree(self, a: str, b: str) -> bool:
        if self.is_verbatim(a, b):
            return True
        if self.lines.get(a) and self.lines[a] == self.lines.get(b):
            return True
        return a in self.near and self.near[a] is self.near.get(b)

    def is_verbatim(self, a: str, b: str) -> bool:
        return bool(self.typed.get(a)) and self.typed[a] == self.typed.get(b)

    def holders(self, who: str) -> list[str]:
        """All who have this answer, once names and comments are put aside."""
        return self.by_lines.get(self.lines.get(who)) or self.by_text.get(
            self.typed.get(who), []
        )

    def agreements(self) -> Iterable[Agreement]:
        for form, submissions in self.by_text.items():
            yield from self._agreement(submissions, len(form), WORD_FOR_WORD, True)
        for form, submissions in self.by_lines.items():
            yield from self._agreement(submissions, len(form), SAME, False)
        for group in self.groups:
            yield from self._agreement([*group.submissions], group.same, NEARLY, False)

    def _agreement(
        self, submissions: list[str], length: int, share: float, verbatim: bool
    ) -> Iterable[Agreement]:
        is_common = len(submissions) > max(CROWD, COMMON * len(self.answered))
        if len(submissions) < 2 or is_common or self.is_obvious(submissions[0]):
            return
        rarity = -math.log2((len(submissions) - 1) / (len(self.answered) - 1))
        bits = min(max(rarity, A_LINE * (length - 2)), MOST) + math.log2(share)
        if bits > 0:
            yield Agreement(submissions, bits, verbatim)

    def short(self, listed: set[str]) -> Short | None:
        """How many answers equal another one, without those of submissions that are listed."""
        published = self.lines.get(PUBLISHED)
        count = Counter()
        for form, submissions in self.by_lines.items():
            if len(submissions) > 1:
                count[form == published] += len({*submissions} - listed - {PUBLISHED})
        total = count.total()
        return Short(self.number, total, count[True]) if total else None


def _exercise(
    question: Question, assignment: Assignment, grades: list[Grade]
) -> Exercise:
    number = question.number
    given = [assignment.given, question.starter, *question.checks]
    lines = {grade.submission: grade.lines.get(number, {}) for grade in grades}
    lines[PUBLISHED] = lines_of(question.solution)
    texts = {grade.submission: grade.answers.get(number, "") for grade in grades}
    texts[PUBLISHED] = question.solution
    known = {line.strip() for source in given for line in source.splitlines()}
    typed = {who: _typed(text, known) for who, text in texts.items()}
    return Exercise(question.number, own_lines(lines, given), typed)


def _typed(text: str, known: set[str]) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and line not in known)


# --- whole notebooks


class Comparison:
    def __init__(self, exercises: list[Exercise]) -> None:
        self.exercises = exercises
        self.submissions = sorted({who for one in exercises for who in one.answered})
        self.answered = {
            who: frozenset(
                place for place, one in enumerate(exercises) if who in one.answered
            )
            for who in self.submissions
        }

    def notebooks(self) -> list[Notebooks]:
        if len(self.submissions) < 2:
            return []
        edges = self._around() | self._throughout()
        links = Links()
        for a, b in sorted(edges):
            links.join(a, b)
        groups = [self._notebooks(sorted(members), edges) for members in links.groups()]
        return sorted(
            groups, key=lambda group: (-len(group.submissions), group.submissions)
        )

    def _around(self) -> set[tuple[str, str]]:
        """Pairs of a notebook and those that agree with it in more than chance would have.

        One needs much evidence; where several agree with the same notebook, each needs less.
        """
        neighbours: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for (a, b), worth in self._evidence().items():
            neighbours[a].append((-worth, b))
            neighbours[b].append((-worth, a))
        pairs = set()
        for who, others in neighbours.items():
            others.sort()
            for other in self._convincing(others):
                pairs.add((min(who, other), max(who, other)))
        return pairs

    def _convincing(self, others: list[tuple[float, str]]) -> list[str]:
        """Those whose evidence, the strongest first, is more than chance gives to so many."""
        convincing: list[str] = []
        waiting: list[str] = []
        count = len(self.submissions)
        evidence, enough = (
            0.0,
            SURE + math.log2(count) - 1,
        )  # for any notebook, not for this one
        left = count - 1
        for worth, other in others:
            waiting.append(other)
            evidence -= worth
            # The more there are, the more choices of so many there are.
            enough += math.log2((left - len(waiting) + 1) / len(waiting))
            if evidence >= enough:
                convincing += waiting
                left -= len(waiting)
                waiting, evidence, enough = [], 0.0, SURE
        return convincing

    def _evidence(self) -> dict[tuple[str, str], float]:
        """The bits for each pair that agrees in several exercises, where there are any left."""
        bits: dict[tuple[str, str], float] = defaultdict(float)
        agreed: Counter[tuple[str, str]] = Counter()
        for exercise in self.exercises:
            best: dict[tuple[str, str], float] = {}
            for agreement in exercise.agreements():
                for pair in combinations(sorted(agreement.submissions), 2):
                    best[pair] = max(best.get(pair, 0), agreement.bits)
            for pair, worth in best.items():
                bits[pair] += worth
                agreed[pair] += 1
        evidence = {}
        for pair, worth in bits.items():
            if agreed[pair] < 2:  # one exercise is listed by itself, or is not
                continue
            both = self.answered[pair[0]] & self.answered[pair[1]]
            different = sum(not self.exercises[place].agree(*pair) for place in both)
            worth += different * math.log2(DIFFERENT)
            if worth > 0:
                evidence[pair] = worth
        return evidence

    def _throughout(self) -> set[tuple[str, str]]:
        """Neighbours in groups whose notebooks are the same from the first answer to the last."""
        pairs = set()
        for kind in ("by_text", "by_lines"):
            forms = self._forms(kind)
            for form, members in same_forms(forms).items():
                if len(members) < 2 or len(form) < 2:
                    continue
                rates = self._rates(form, members, kind)
                bits = (len(members) - 1) * sum(-math.log2(rate) for rate in rates)
                is_unlikely = bits >= self._enough(len(members))
                if is_unlikely and not _is_crowded(form, members, rates, forms):
                    pairs.update(pairwise(members))
        return pairs

    def _forms(self, kind: str) -> dict[str, tuple[tuple[int, Hashable], ...]]:
        """Each notebook as the numbers of its answers' forms, by exercise."""
        forms: dict[str, list] = {who: [] for who in self.submissions}
        for place, exercise in enumerate(self.exercises):
            for number, members in enumerate(getattr(exercise, kind).values()):
                for who in members:
                    forms[who].append((place, number))
        return {who: tuple(form) for who, form in forms.items()}

    def _rates(self, form: tuple, members: list[str], kind: str) -> list[float]:
        """How many of the others give each of these answers, no answer that is obvious."""
        rates = []
        for place, _ in form:
            exercise = self.exercises[place]
            if exercise.is_obvious(members[0]):
                continue
            own = exercise.typed if kind == "by_text" else exercise.lines
            holders = getattr(exercise, kind)[own[members[0]]]
            outside = len(holders) - len(members)
            rates.append((outside + 1) / (len(exercise.answered) - len(members) + 1))
        return rates

    def _enough(self, size: int) -> float:
        """The bits that a group of this size needs, because any of so many groups could be it."""
        return math.log2(math.comb(len(self.submissions), size)) + SURE

    def _notebooks(self, members: list[str], edges: set[tuple[str, str]]) -> Notebooks:
        members.sort(key=lambda who: who == PUBLISHED)  # it comes last
        own = [pair for pair in edges if {*pair} <= {*members}]
        figures = min(self._figures(*pair, {*members}) for pair in sorted(own))
        exercises = [one.number for one in self.exercises if one.agree(*members[:2])]
        return Notebooks(tuple(members), tuple(exercises), *figures[1:])

    def _figures(
        self, a: str, b: str, group: set[str]
    ) -> tuple[float, int, int, int, int, int]:
        """The share of two submissions' answers that is the same, and what it is made of."""
        both = [self.exercises[place] for place in self.answered[a] & self.answered[b]]
        same = [exercise for exercise in both if exercise.agree(a, b)]
        verbatim = sum(exercise.is_verbatim(a, b) for exercise in same)
        outside = [len({*one.holders(a), *one.holders(b)} - group) for one in same]
        share = len(same) / len(both)
        return share, len(same), len(both), verbatim, outside.count(0), min(outside)


def _is_crowded(
    form: tuple, members: list[str], rates: list[float], forms: Mapping[str, tuple]
) -> bool:
    """Do as many others differ from these notebooks in one exercise as if all were honest?

    Good students write alike, so they may lean far towards these answers. Even then some take
    another way in one exercise or the next; a third of those expected are a crowd.
    """
    own = {*form}
    others = (
        other for other in forms.values() if len(other) == len(form) and other != form
    )
    nearly = sum(len(own & {*other}) == len(form) - 1 for other in others)
    expected = len(members) * sum(rate**-LEANING - 1 for rate in rates)
    return 3 * nearly >= expected
