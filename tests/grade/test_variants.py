"""Variants: drawn by a key, the same ever after, and each of them solved by its solution."""

import os
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from helpers import ROOT, refused

from tools.book.book import Book
from tools.exercises.release import make_drafts
from tools.exercises.variants import draws_of
from tools.exercises.verify import trials, verify
from tools.grade.engine import on_this_machine
from tools.grade.store import key_of


def test_a_key_draws_the_same_ever_after_and_none_of_what_the_book_draws():
    draws, book = draws_of("an invented key of this class"), draws_of(None)
    assert (book.fingerprint, book.choose("any", [1, 2, 3])) == ("book", 1)
    assert draws.fingerprint == "b451b6509284"
    assert draws.seed("small").startswith("89c3ab620c1d5ccb")
    drawn = [draws.choose(f"small/{n}/factor", list(range(10))) for n in range(8)]
    assert drawn == [4, 1, 3, 3, 3, 8, 5, 8]
    assert draws.choose("place", ["only"]) == "only"
    count = Counter(draws.choose(f"place/{n}", list("abcde")) for n in range(4000))
    assert set(count) == set("bcde") and max(count.values()) < 1.15 * min(count.values())


def test_a_short_key_is_refused():
    for key, count in {"1234567": 7, " " * 8: 0, "": 0}.items():
        with refused(f"CLASS: a key of {count} characters; take 8 or more"):
            draws_of(key)
    assert len(draws_of("schl\udcfcssel eins").fingerprint) == 12  # as a shell in Latin 1 has it


def drawn(n, lengths):
    """The drafts of all masters with the nth value of each variant, whose number is noted."""

    def nth(place, values):
        lengths[place.rpartition("/")[0]] = len(values)
        return values[n % len(values)]

    return make_drafts(Book(ROOT), ROOT / "masters", replace(draws_of(None), choose=nth))


def test_every_exercise_of_the_book_is_another_for_a_class():
    lengths = {}
    asked = {
        f"{master.name}/{x.title}" for master, _ in drawn(0, lengths) for x in master.exercises
    }
    assert {place for place, length in lengths.items() if length > 1} == asked


@pytest.mark.full
def test_a_solution_solves_its_exercise_whatever_is_drawn():
    """What held is remembered in `_build`, as by `make release`; else this takes minutes."""
    found, lengths = [], {}
    drawn(0, lengths)
    for n in range(1, max(lengths.values())):
        for master, assignment in drawn(n, {}):
            kept = [x for x in master.exercises if lengths[f"{master.name}/{x.title}"] > n]
            if kept:
                solution = next(trials(replace(master, exercises=kept), assignment))
                solution[-1]["submission"] += f", value {n + 1} of each variant"
                found.append(solution)
    grade = partial(on_this_machine, workers=min(os.cpu_count() or 1, 4))
    lines = verify(found, grade, key_of, ROOT)
    assert lines == [], "\n".join(lines)
