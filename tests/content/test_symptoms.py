"""Symptom, cause, cure: each is whole, its program prints its message, and the cured one none."""

from copy import deepcopy

import pytest
from helpers import ROOT, code, keep, make_book, prose, text, write

from tools.book.book import Book
from tools.rules.rules import broken_rules, dead_links, prose_of
from tools.rules.symptoms import shown_symptoms, symptoms_of, whole_symptoms

BOOK = Book(ROOT)
PAGES = [chapter for chapter in BOOK.chapters.values() if chapter.lists_symptoms]
ASKED = (  # words that people search for, each of which must lead somewhere
    *(
        "found at least two devices",
        "mat1 is on cpu",
        "should be the same",
        "invalid device ordinal",
    ),
    *("Torch not compiled with CUDA enabled", "is_available() is False", "CUDA out of memory"),
    *("can't convert cuda:0", "Can't call numpy()", "device-side assert", "does not require grad"),
    *("a second time", "inplace operation", "size mismatch", "Unexpected key(s)", "cannot pin"),
    *(
        "must have the same dtype",
        "expected target dtype to be Long",
        "shapes cannot be multiplied",
    ),
)


def test_there_is_one_page_with_forty_symptoms_or_more():
    (page,) = PAGES
    symptoms = symptoms_of(page)
    assert len(symptoms) >= 40
    assert sum(bool(each.message) for each in symptoms) >= 30  # errors, the others are slow
    assert len({each.title for each in symptoms}) == len(symptoms)


def test_what_people_search_for_is_in_a_heading():
    titles = "\n".join(each.title for each in symptoms_of(PAGES[0]))
    assert [words for words in ASKED if words not in titles] == []


def test_every_symptom_leads_to_a_section_that_exists():
    page = PAGES[0]
    assert dead_links(prose_of(page), ROOT / "notebooks") == []
    for each in symptoms_of(page):
        assert dead_links(each.cause.source.replace("#", "#no-"), ROOT / "notebooks"), each.title


def test_every_program_was_executed_and_prints_what_its_heading_says():
    page = PAGES[0]
    recordings = BOOK.recordings_of(page)
    assert "simulated" in [recording.folder for recording in recordings]
    for recording in recordings:
        assert recording.waiting == []
    assert list(shown_symptoms(page, recordings)) == []
    assert list(whole_symptoms(page)) == []


def test_programs_end_in_an_error_or_in_a_number_and_never_in_silence():
    """A block that raises nothing fails, so an error that PyTorch no longer raises is noticed."""
    for each in symptoms_of(PAGES[0]):
        shown = each.shown.source
        assert bool(each.message) <= ("with error_shown()" in shown or "run_elsewhere(" in shown)
        assert "error_shown" not in each.cured.source, each.title


# The rules on a page of one symptom.

CAUSE = (
    "**Cause.** It is on two devices.\n\n**Cure.** Move it. Read on: [There](first.ipynb#there)."
)
ERROR = "Traceback (most recent call last):\n  Cell, line 1, in <module>\nRuntimeError: No way\n"
SOUND = (
    prose("group", "## There"),
    prose("one", "### `No way`"),
    code("one-shown", "1"),
    prose("one-cause", CAUSE),
    code("one-cured", "2"),
)


@pytest.fixture
def page(tmp_path):
    """Makes the faults of a page: of these cells, which printed this."""

    def faults(*cells, shown=ERROR, cured="2\n"):
        root = make_book(tmp_path / f"book-{len(shown)}")
        write(root, "first", prose("title", "# Symptoms"), *deepcopy(cells), kind="symptoms")
        printed = {"one-shown": [text(shown)], "one-cured": [text(cured)]}
        keep(root, "first", "cpu", printed)
        book = Book(root)
        return broken_rules(book.chapters["first"], book.recordings["cpu"].values(), root)

    return faults


def changed(number, source=None, id=None):
    cells = deepcopy(SOUND)
    cells[number].source = source or cells[number].source
    cells[number].id = id or cells[number].id
    return cells


def test_a_sound_symptom_breaks_no_rule(page):
    assert page(*SOUND) == []


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (changed(1, "### `No way`\n\nIt fails."), "more than a heading"),
        (changed(2, id="one-program"), "not followed by"),
        (SOUND[:3] + SOUND[4:], "not followed by"),
        (SOUND[:4], "not followed by"),
        (changed(3, CAUSE.replace("**Cause.**", "Cause:")), "is not '**Cause.**"),
        (changed(3, CAUSE.replace("**Cure.** Move it. ", "")), "is not '**Cause.**"),
        (changed(3, CAUSE.partition(" Read on")[0]), "is not '**Cause.**"),
        (changed(3, CAUSE.replace("#there", "")), "is not '**Cause.**"),
        (changed(3, CAUSE.replace("#there", "#nowhere")), "leads nowhere"),
        ((*SOUND, prose("two", "### `No way`")), "another symptom"),
    ],
)
def test_a_symptom_that_is_not_whole_is_named(page, cells, says):
    assert any(says in line for line in page(*cells))


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ({"shown": "RuntimeError: Another way\n"}, "does not print the heading's words"),
        ({"shown": "No way\n"}, "stand in the heading as code"),
        ({"cured": ERROR}, "prints an error"),
        ({"cured": ""}, "prints nothing"),
    ],
)
def test_a_false_message_and_a_cure_that_fails_are_named(page, printed, says):
    assert any(says in line for line in page(*SOUND, **printed))


def test_a_slowness_has_no_error(page):
    cells = changed(1, "### It is slow")
    assert page(*cells, shown="3 waits\n") == []
    assert any("stand in the heading as code" in line for line in page(*cells))
