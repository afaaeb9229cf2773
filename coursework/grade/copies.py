"""Notebooks that agree more than chance would have it, and answers that do so by themselves.

A short answer proves nothing, because many students write the same line. But two students
who agree in one exercise after another, in answers that hardly anybody else gave, did not
get there by chance. So the evidence for a pair is added up over the exercises, in bits: an
answer that 1 of 16 gave is worth 4. An answer that many gave is worth nothing, and each
exercise in which the two differ takes some away. It is enough once chance would give it to
one pair in ten classes of this size.

Notebooks with the same answers throughout weigh more, the more of them there are. Common
answers count there as well, because their combination may be rare. But honest notebooks
that are all alike stand in a crowd of others that differ from them in one exercise, and
copies do not.

The published solutions are compared like one more notebook. Nothing here is a verdict.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from coursework.exercises.tasks import Assignment, GradedExercise
from coursework.grade.results import Grade
from coursework.grade.similar import (
    AnswerGroup,
    Lines,
    by_size,
    holders_of,
    joined,
    lines_of,
    own_lines,
    similar_answers,
)

PUBLISHED = "the published solution"  # stands among the submissions
# An answer is common, and no evidence by itself, if more of a class gave it than this,
COMMON_SHARE = 0.1
CROWD = 3  # and if these are more than so many.
BITS_OF_LINE = 1  # for each line above two, however small the class
MAX_BITS = 12  # for one answer
# How often those who copy are taken to leave an answer so:
WORD_FOR_WORD = 0.5
SAME_LINES = 0.35
NEARLY_SAME = 0.1
DIFFERENT = 0.05
# Good students give an answer at most at its rate in the class to this power.
LEANING = 0.25
SURE = math.log2(10)  # bits beyond those that the number of pairs asks for

Pair = tuple[str, str]  # of submissions, in their order
# What a notebook answers: the place of each exercise, and the number of the answer's form there.
Signature = tuple[tuple[int, int], ...]


@dataclass(frozen=True, order=True)
class Figures:
    """How far two notebooks agree."""

    share: float  # of the answers that both have
    same: int  # answers, when names and comments are ignored
    answers: int  # that both have
    verbatim: int  # of the same ones, names and comments included
    alone: int  # of the same ones, in no notebook outside the group
    others: int  # notebooks outside the group that have the rarest of them


@dataclass(frozen=True)
class NotebookGroup:
    """Submissions that agree over whole notebooks."""

    submissions: tuple[str, ...]
    exercises: tuple[int, ...]  # in which the first two agree
    figures: Figures  # of the two that are least alike

    @property
    def text(self) -> str:
        figures = self.figures
        count = f"{figures.same} of {figures.answers} answers are the same"
        if len(self.submissions) > 2 and figures.same < figures.answers:
            count = f"at least {count}"
        details = ["when names and comments are ignored"]
        if figures.verbatim:
            details.append(f"{figures.verbatim} of them word for word")
        if figures.alone:
            details.append(f"{figures.alone} in no other notebook")
        else:
            details.append(f"the rarest of them in {figures.others} other notebooks")
        return f"{count} {', '.join(details)}"


@dataclass(frozen=True)
class ShortAnswers:
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
    notebooks: list[NotebookGroup]
    answers: list[AnswerGroup]  # whose submissions are in no group of notebooks
    short: list[ShortAnswers]


def copies_in(assignment: Assignment, grades: Iterable[Grade]) -> Copies:
    """Find what agrees among an assignment's grades and with the published solutions."""
    grades = list(grades)
    exercises = [
        _answers_to(exercise, assignment, grades) for exercise in assignment.exercises
    ]
    notebooks = Comparison(exercises).notebooks()
    copied = [set(group.submissions) for group in notebooks]

    answers = []
    short = []
    for exercise in exercises:
        listed = set().union(*copied)
        for group in exercise.groups:
            listed.update(group.submissions)
            if not any(members.issuperset(group.submissions) for members in copied):
                answers.append(group)
        counted = exercise.short(listed)
        if counted.answers:
            short.append(counted)
    return Copies(notebooks, answers, short)


# --- an exercise


class Forms:
    """All answers to an exercise in one form each, such as their lines without comments.

    A form that is empty is no answer.
    """

    def __init__(self, by_submission: Mapping[str, Hashable]) -> None:
        self.by_submission = by_submission
        self.holders = holders_of(by_submission)

    def are_same(self, a: str, b: str) -> bool:
        form = self.by_submission.get(a)
        return bool(form) and form == self.by_submission.get(b)

    def holders_with(self, submission: str) -> list[str]:
        """Return all who have the answer of this submission, itself included."""
        form = self.by_submission.get(submission)
        return self.holders.get(form, [])


@dataclass
class Agreement:
    """Submissions whose answers are alike, and what that is worth to two of them."""

    submissions: list[str]
    bits: float


class ExerciseAnswers:
    """The answers to one exercise, as they were typed and by their own lines."""

    def __init__(
        self, number: int, typed: Mapping[str, tuple], lines: Mapping[str, Lines]
    ) -> None:
        self.number = number
        self.typed = Forms(typed)
        self.lines = Forms(lines)
        self.submissions = {who for who in typed if typed[who] or lines.get(who)}
        self.groups = similar_answers(number, lines)
        self.group_of = {}
        for group in self.groups:
            for submission in group.submissions:
                self.group_of[submission] = group

    def is_obvious(self, submission: str) -> bool:
        """Tell whether an answer is one line, and the published one.

        The right word is the same for all.
        """
        own = self.lines.by_submission.get(submission)
        published = self.lines.by_submission.get(PUBLISHED)
        return own is not None and len(own) <= 1 and own == published

    def agree(self, a: str, b: str) -> bool:
        if self.typed.are_same(a, b) or self.lines.are_same(a, b):
            return True
        return a in self.group_of and self.group_of[a] is self.group_of.get(b)

    def holders(self, submission: str) -> list[str]:
        """Return all who have this answer, when names and comments are ignored."""
        by_lines = self.lines.holders_with(submission)
        return by_lines or self.typed.holders_with(submission)

    def agreements(self) -> list[Agreement]:
        """Return the agreements that are worth anything."""
        agreements = []
        for form, holders in self.typed.holders.items():
            agreements.append(self._agreement(holders, len(form), WORD_FOR_WORD))
        for form, holders in self.lines.holders.items():
            agreements.append(self._agreement(holders, len(form), SAME_LINES))
        for group in self.groups:
            holders = list(group.submissions)
            agreements.append(self._agreement(holders, group.same, NEARLY_SAME))
        return [agreement for agreement in agreements if agreement]

    def _agreement(
        self, holders: list[str], length: int, share: float
    ) -> Agreement | None:
        """Return what it is worth that these have answers of so many lines in common.

        Returns None if it is worth nothing. `share` of those who copy leave an answer so.
        """
        class_size = len(self.submissions)
        is_common = len(holders) > max(CROWD, COMMON_SHARE * class_size)
        if len(holders) < 2 or is_common or self.is_obvious(holders[0]):
            return None
        rarity = -math.log2((len(holders) - 1) / (class_size - 1))
        bits = max(rarity, BITS_OF_LINE * (length - 2))
        bits = min(bits, MAX_BITS) + math.log2(share)
        return Agreement(holders, bits) if bits > 0 else None

    def short(self, listed: set[str]) -> ShortAnswers:
        """Count the answers that equal another one, but for `listed` submissions."""
        total = 0
        published = 0
        for form, holders in self.lines.holders.items():
            if len(holders) > 1:
                unlisted = len(set(holders) - listed - {PUBLISHED})
                total += unlisted
                if form == self.lines.by_submission.get(PUBLISHED):
                    published = unlisted
        return ShortAnswers(self.number, total, published)


def _answers_to(
    exercise: GradedExercise, assignment: Assignment, grades: list[Grade]
) -> ExerciseAnswers:
    number = exercise.number
    given = [assignment.given, exercise.starter, *exercise.checks]
    known = set()
    for source in given:
        known.update(line.strip() for line in source.splitlines())

    typed = {}
    lines = {}
    for grade in grades:
        typed[grade.submission] = _typed(grade.answers.get(number, ""), known)
        lines[grade.submission] = grade.lines.get(number, {})
    typed[PUBLISHED] = _typed(exercise.solution, known)
    lines[PUBLISHED] = lines_of(exercise.solution)
    return ExerciseAnswers(number, typed, own_lines(lines, given))


def _typed(text: str, known: set[str]) -> tuple[str, ...]:
    """Return the lines of an answer as they were typed, but for those that are known."""
    lines = [line.strip() for line in text.splitlines()]
    return tuple(line for line in lines if line and line not in known)


# --- whole notebooks


class Comparison:
    """Compares the notebooks of a class."""

    def __init__(self, exercises: list[ExerciseAnswers]) -> None:
        self.exercises = exercises
        answered = defaultdict(set)  # the places of exercises, by submission
        for place, exercise in enumerate(exercises):
            for submission in exercise.submissions:
                answered[submission].add(place)
        self.answered = dict(answered)
        self.submissions = sorted(answered)

    def notebooks(self) -> list[NotebookGroup]:
        if len(self.submissions) < 2:
            return []
        pairs = self._around()
        pairs |= self._throughout([exercise.typed for exercise in self.exercises])
        pairs |= self._throughout([exercise.lines for exercise in self.exercises])
        return by_size(self._group(members, pairs) for members in joined(pairs))

    def _group(self, members: list[str], pairs: set[Pair]) -> NotebookGroup:
        group = set(members)
        figures = [self._figures(a, b, group) for a, b in pairs if a in group]
        in_order = sorted(group - {PUBLISHED})
        if PUBLISHED in group:  # it comes last
            in_order.append(PUBLISHED)
        first, second = in_order[:2]
        agreed = [one.number for one in self.exercises if one.agree(first, second)]
        return NotebookGroup(tuple(in_order), tuple(agreed), min(figures))

    def _figures(self, a: str, b: str, group: set[str]) -> Figures:
        answers = self._answered_by_both(a, b)
        same = [exercise for exercise in answers if exercise.agree(a, b)]
        verbatim = sum(exercise.typed.are_same(a, b) for exercise in same)
        outside = []
        for exercise in same:
            holders = {*exercise.holders(a), *exercise.holders(b)}
            outside.append(len(holders - group))
        return Figures(
            share=len(same) / len(answers),
            same=len(same),
            answers=len(answers),
            verbatim=verbatim,
            alone=outside.count(0),
            others=min(outside),
        )

    def _answered_by_both(self, a: str, b: str) -> list[ExerciseAnswers]:
        places = self.answered[a] & self.answered[b]
        return [self.exercises[place] for place in places]

    # --- pairs by the evidence for each

    def _around(self) -> set[Pair]:
        """Return pairs of a notebook and those that agree with it more than by chance.

        One needs much evidence; where several agree with the same notebook, each needs
        less.
        """
        neighbours: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for (a, b), bits in self._evidence().items():
            neighbours[a].append((bits, b))
            neighbours[b].append((bits, a))
        pairs = set()
        for submission, others in neighbours.items():
            others.sort(key=lambda other: (-other[0], other[1]))
            for other in self._convincing(others):
                pairs.add((min(submission, other), max(submission, other)))
        return pairs

    def _convincing(self, others: list[tuple[float, str]]) -> list[str]:
        """Return those of one notebook's `others` whose evidence is more than chance gives.

        `others` are the bits of evidence and who they are, the strongest first.

        Chance gives evidence of b bits with a probability of 2**-b. In a class of n, any k
        of the n - 1 others could have it, and any notebook could be the one that they agree
        with: that is n / 2 * C(n - 1, k) chances, as a pair is seen from both of its ends.
        So k others are convincing once their bits together come to the logarithm of that
        number and SURE more. For those that follow, the factor n / 2 falls away, because
        the notebook that they would agree with is known by then.
        """
        convincing: list[str] = []
        candidates: list[str] = []
        count = len(self.submissions)
        remaining = count - 1
        evidence = 0.0
        enough = SURE + math.log2(count / 2)
        for bits, other in others:
            candidates.append(other)
            evidence += bits
            # C(remaining, k) is C(remaining, k - 1) * (remaining - k + 1) / k.
            enough += math.log2((remaining - len(candidates) + 1) / len(candidates))
            if evidence >= enough:
                convincing += candidates
                remaining -= len(candidates)
                candidates = []
                evidence = 0.0
                enough = SURE
        return convincing

    def _evidence(self) -> dict[Pair, float]:
        """Return the bits of each pair that agrees in several exercises, if any are left."""
        bits: dict[Pair, float] = defaultdict(float)
        agreed: Counter[Pair] = Counter()
        for exercise in self.exercises:
            for pair, best in _best_bits(exercise).items():
                bits[pair] += best
                agreed[pair] += 1

        evidence = {}
        for (a, b), worth in bits.items():
            if agreed[a, b] < 2:  # one exercise is listed by itself, or is not
                continue
            for exercise in self._answered_by_both(a, b):
                if not exercise.agree(a, b):
                    worth += math.log2(DIFFERENT)
            if worth > 0:
                evidence[a, b] = worth
        return evidence

    # --- pairs of notebooks that are the same from the first answer to the last

    def _throughout(self, forms_by_exercise: list[Forms]) -> set[Pair]:
        """Return neighbours in groups that have the same form in every exercise.

        The forms are in the order of `self.exercises`.
        """
        pairs = set()
        signatures = self._signatures(forms_by_exercise)
        for signature, members in holders_of(signatures).items():
            if len(members) < 2 or len(signature) < 2:
                continue
            rates = self._rates(signature, members, forms_by_exercise)
            bits = (len(members) - 1) * sum(-math.log2(rate) for rate in rates)
            is_unlikely = bits >= self._enough(len(members))
            if is_unlikely and not _is_crowded(signature, members, rates, signatures):
                pairs.update(pairwise(members))
        return pairs

    def _signatures(self, forms_by_exercise: list[Forms]) -> dict[str, Signature]:
        signatures: dict[str, list] = {who: [] for who in self.submissions}
        for place, forms in enumerate(forms_by_exercise):
            for number, holders in enumerate(forms.holders.values()):
                for submission in holders:
                    signatures[submission].append((place, number))
        return {who: tuple(signature) for who, signature in signatures.items()}

    def _rates(
        self, signature: Signature, members: list[str], forms_by_exercise: list[Forms]
    ) -> list[float]:
        """Return the share of others who give each answer that is not obvious."""
        rates = []
        for place, _ in signature:
            answers = self.exercises[place]
            if not answers.is_obvious(members[0]):
                holders = forms_by_exercise[place].holders_with(members[0])
                outside = len(holders) - len(members)
                others = len(answers.submissions) - len(members)
                rates.append((outside + 1) / (others + 1))
        return rates

    def _enough(self, size: int) -> float:
        """Return the bits that a group of this size needs, as any such group could be it."""
        return math.log2(math.comb(len(self.submissions), size)) + SURE


def _best_bits(exercise: ExerciseAnswers) -> dict[Pair, float]:
    """Return for each pair that agrees what the strongest of its agreements is worth."""
    best: dict[Pair, float] = defaultdict(float)
    for agreement in exercise.agreements():
        for pair in combinations(sorted(agreement.submissions), 2):
            best[pair] = max(best[pair], agreement.bits)
    return best


def _is_crowded(
    signature: Signature,
    members: list[str],
    rates: list[float],
    signatures: Mapping[str, Signature],
) -> bool:
    """Tell whether as many others differ in one exercise as if all were honest.

    Good students write alike, so they may lean far towards these answers: where the class
    gives an answer at the rate r, they give it with a probability of up to q = r**LEANING.
    Even then some take another way in one exercise. For each of them who gives all the
    answers of `members`, (1 - q) / q = 1 / q - 1 differ in a certain exercise alone. Copies
    have nobody around them; a third of those expected are a crowd, as the estimate is
    rough and chance may make them fewer.
    """
    own = set(signature)
    nearly = 0
    for other in signatures.values():
        shared = own.intersection(other)
        if len(other) == len(signature) and len(shared) == len(signature) - 1:
            nearly += 1
    expected = len(members) * sum(rate**-LEANING - 1 for rate in rates)
    return 3 * nearly >= expected
