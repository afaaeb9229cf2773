"""What a translation must keep of its message, and what it must not hold.

Where a check is mistaken and the translator right, a comment above the message in the `.po` drops
the check for that message: `# unlike: negation`. CHECKS lists the names of all checks.
"""

import re
from calendar import month_name
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from babel.messages.catalog import Message

from tools.book.cells import MARKDOWN
from tools.book.grammar import CHOICES, right_choice
from tools.files import read_beside
from tools.languages.language import TERMS, Language
from tools.languages.messages import NO_TEXT

# A comment that begins so names the checks that are dropped for a message.
UNLIKE = "unlike:"

# What stays as it is, in each item of a list and each row of a table; each within none before it.
KEPT: dict[str, str] = read_beside(__file__, "kept.yml")
CHECKS = {
    *KEPT,
    "block",
    "choice",
    "em",
    "english",
    "heading",
    "item",
    "length",
    "letter",
    "negation",
    "order",
    "strong",
    "term",
    "writing",
}

CODE = re.compile(KEPT["code"])
ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.|\|) ?)")
HEADING = re.compile(r"#* ?")
# GPU, PyTorch: not translated.
NAME = re.compile(r"\b(?=\w*[A-Z]\w*[A-Z])[A-Za-z]+?(?=s?\b)")
NEGATION = re.compile(
    r"\b(?:not|no|never|nothing|none|nobody|without|cannot|neither)\b|n't\b",
    re.IGNORECASE,
)
SENTENCE = re.compile(r"(?:\b[a-z]+,? ){4,}[a-z]+\b")  # five words of English in a row
TITLE = re.compile(r"(?<!\*)\*[^*\n]+\*(?!\*)")  # what is quoted as it is, in both
MONTHS = {name: str(number) for number, name in enumerate(month_name) if name}
STEM = 7  # letters of a term by which it is found in English
IDEOGRAPHS = "\u3000"  # from here on, words are not set apart by spaces
SHORT = 60  # letters of a message whose translation may have any length
AROUND = 6  # letters that are quoted before and after what is wrong


class Fault(NamedTuple):
    """The name of the check that found it, and what is wrong."""

    check: str
    words: str


Faults = Iterator[Fault]


def faults(entry: Message, language: Language) -> Faults:
    """Yield what is wrong with the translation of a message, but for dropped checks."""
    dropped = _dropped_checks(entry)
    for check in dropped:
        if check not in CHECKS:
            known = ", ".join(sorted(CHECKS))
            words = f"'# {UNLIKE}' names no check: '{check}'; use one of {known}"
            yield Fault("unlike", words)
    for fault in _faults(entry, language):
        if fault.check not in dropped:
            yield fault


def _dropped_checks(entry: Message) -> list[str]:
    """Return the names of the checks that comments above a message drop."""
    checks = []
    for comment in entry.user_comments:
        if comment.startswith(UNLIKE):
            names = comment.removeprefix(UNLIKE)
            checks += re.findall(r"[^\s,]+", names)
    return checks


def _faults(entry: Message, language: Language) -> Faults:
    message = entry.id
    translation = entry.string
    if entry.context.startswith("img/"):
        yield from _undrawn_letters(translation, language)
    if "\n\n" in translation or translation != translation.strip():
        words = "is no single block; drop empty lines, and space around it"
        yield Fault("block", words)
    yield from _faults_of_items(message, translation, language)
    yield from _faults_of_emphasis(message, translation)
    level = HEADING.match(message)[0]
    if HEADING.match(translation)[0] != level:
        yield Fault("heading", f"is no heading as '{message[:20]}' is")
    yield from _faults_of_words(message, translation, language)


def _undrawn_letters(translation: str, language: Language) -> Faults:
    undrawn = sorted(set(translation) - language.letters)
    if undrawn:
        letters = "".join(undrawn)
        yield Fault("letter", f"no font of the figures draws {letters}")


def _faults_of_items(message: str, translation: str, language: Language) -> Faults:
    items = ITEM.split(message)
    translated = ITEM.split(translation)
    if len(items) != len(translated):
        count = f"has {len(translated)} items or rows"
        yield Fault("item", f"{count} where English has {len(items)}")
        return
    if len(items) == 1:
        yield from _not_kept(message, translation)
        return
    pairs = zip(items, translated, strict=True)
    for number, (item, translated_item) in enumerate(pairs, start=1):
        for fault in _not_kept(item, translated_item):
            yield Fault(fault.check, f"{fault.words} in item {number}")
    yield from _swapped(items, translated, language)


def _not_kept(item: str, translated: str) -> Faults:
    """Yield what a translated item lacks, or has beyond what English has."""
    for check, pattern in KEPT.items():
        if check == "number":
            item = _numbered(item)
            translated = _numbered(translated)
        english = _occurrences(pattern, item)
        own = _occurrences(pattern, translated)
        lost = english - own
        if lost:
            yield Fault(check, f"lacks {', '.join(lost.elements())}")
        added = own - english
        if added:
            words = ", ".join(added.elements())
            yield Fault(check, f"has {words}, which English has not")
        item = re.sub(pattern, " ", item)
        translated = re.sub(pattern, " ", translated)


def _occurrences(pattern: str, text: str) -> Counter[str]:
    return Counter(match[0] for match in re.finditer(pattern, text))


def _numbered(text: str) -> str:
    """Return a text with the numbers of months for their names: November is 11."""
    return " ".join(MONTHS.get(word, word) for word in text.split(" "))


def _swapped(items: list[str], translated: list[str], language: Language) -> Faults:
    """Yield the names and terms that one item of each has, and not the same."""
    for word, own in _names(items) + _terms(language):
        places = _places(rf"\b{re.escape(word[:STEM])}", items)
        own_places = _places(re.escape(own), translated)
        if len(places) != 1 or len(own_places) != 1:
            continue
        [place] = places
        [own_place] = own_places
        if own_place != place:
            words = f"has '{own}' in item {own_place}, English in item {place}"
            yield Fault("order", words)


def _names(items: list[str]) -> list[tuple[str, str]]:
    """Return the names in items, which are the same in every language."""
    text = CODE.sub("", "\n".join(items))
    return [(name, name) for name in sorted(set(NAME.findall(text)))]


def _terms(language: Language) -> list[tuple[str, str]]:
    """Return the terms of one meaning, each with its translation."""
    terms = []
    for row in language.terms:
        own = row.get(language.code)
        if own and row["en"].isalpha():
            terms.append((row["en"], own))
    return terms


def _places(pattern: str, items: list[str]) -> list[int]:
    """Return the numbers of the items that hold a pattern outside code."""
    places = []
    for number, item in enumerate(items, start=1):
        if re.search(pattern, CODE.sub("", item), re.IGNORECASE):
            places.append(number)
    return places


def _faults_of_emphasis(message: str, translation: str) -> Faults:
    """Compare emphases as drawn: beside full-width marks a ** may be none."""
    english = MARKDOWN.render(message)
    own = MARKDOWN.render(translation)
    for tag in ("strong", "em"):
        wanted = english.count(f"<{tag}>")
        count = own.count(f"<{tag}>")
        if count != wanted:
            words = f"has {count} emphases as drawn, English {wanted}"
            yield Fault(tag, f"{words}; look at its asterisks")


def _faults_of_words(message: str, translation: str, language: Language) -> Faults:
    quoted = TITLE.findall(translation)
    for title in TITLE.findall(message):
        if title in quoted:
            message = message.replace(title, "")
            translation = translation.replace(title, "")
    english = NO_TEXT.sub(" ", message)
    own = NO_TEXT.sub(" ", CODE.sub("A", translation))

    yield from _other_choice(message, translation, language)
    if language.negation:
        wanted = len(NEGATION.findall(english))
        count = len(re.findall(language.negation, own))
        if count < wanted:
            yield Fault("negation", f"has {count} where English has {wanted}")
    if left := SENTENCE.search(own):
        yield Fault("english", f"is not translated: '{left[0][:40]}'")
    yield from _avoided_terms(own, language)
    for pattern, advice in language.wrong.items():
        if match := re.search(pattern, own):
            start = max(0, match.start() - AROUND)
            place = own[start : match.end() + AROUND]
            yield Fault("writing", f"{advice}: '{place}'")
    is_row = message.startswith("|")
    if language.length and len(english) > SHORT and not is_row:
        yield from _unusual_length(english, own, language)


def _other_choice(message: str, translation: str, language: Language) -> Faults:
    place = right_choice(message)
    if place is None or not message.startswith("**"):
        return
    own = language.choices[place]
    if not translation.startswith(f"**{own}**"):
        words = f"names another choice than '{CHOICES[place]}'"
        yield Fault("choice", f"{words}; let it begin with **{own}**")


def _avoided_terms(own: str, language: Language) -> Faults:
    for row in language.terms:
        avoided = row.get(f"avoid in {language.code}") or ""
        for word in avoided.split(";"):
            word = word.strip()
            if not word:
                continue
            pattern = re.escape(word)
            if word[0] < IDEOGRAPHS:
                pattern = rf"\b{pattern}\b"
            if re.search(pattern, own, re.IGNORECASE):
                yield Fault("term", f"has '{word}', which {TERMS} avoids")


def _unusual_length(english: str, own: str, language: Language) -> Faults:
    least, most = language.length
    share = len(own) / len(english)
    if not least < share < most:
        words = f"{share:.2f} letters for each of English"
        yield Fault("length", f"{words}; {least} to {most} is usual")
