"""What a translation must keep of its message, and what it must not hold.

Where a check is wrong and the translator right, the comment `# unlike: negations` above the message
in the `.po` drops that check there.
"""

import re
from calendar import month_name
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from babel.messages.catalog import Message

from tools.book.cells import MARKDOWN
from tools.book.grammar import CHOICES
from tools.files import read_beside
from tools.languages.language import TERMS, Language
from tools.languages.messages import NO_TEXT

UNLIKE = (
    "unlike:"  # a comment that begins so names checks that do not hold for a message
)

# What stays as it is, in each item of a list and each row of a table; each within none before it.
KEPT = {
    name: re.compile(pattern)
    for name, pattern in read_beside(__file__, "kept.yml").items()
}
CODE = KEPT["code"]
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


class Fault(NamedTuple):
    """The name of the check that found it, and what is wrong."""

    check: str
    words: str


Faults = Iterator[Fault]


def faults(entry: Message, language: Language) -> Faults:
    """Yield what is wrong with the translation of a message."""
    dropped = []
    for comment in entry.user_comments:
        dropped += re.findall(r"[^\s,]+", comment.partition(UNLIKE)[2])

    if entry.context.startswith("img/"):
        boxes = set(entry.string) - language.letters
        if boxes:
            letters = "".join(sorted(boxes))
            yield Fault("letter", f"no font of the figures draws {letters}")
    for fault in _faults(entry.id, entry.string, language):
        if fault.check not in dropped:
            yield fault


def _faults(message: str, translation: str, language: Language) -> Faults:
    if "\n\n" in translation or translation != translation.strip():
        words = "is no single block; drop empty lines, and space around it"
        yield Fault("block", words)
    yield from _faults_of_items(message, translation, language)
    yield from _faults_of_emphasis(message, translation)
    if HEADING.match(message)[0] != HEADING.match(translation)[0]:
        yield Fault("heading", f"is no heading as '{message[:20]}' is")
    yield from _faults_of_words(message, translation, language)


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
            item, translated = _numbered(item), _numbered(translated)
        english = Counter(match[0] for match in pattern.finditer(item))
        own = Counter(match[0] for match in pattern.finditer(translated))
        if lost := ", ".join((english - own).elements()):
            yield Fault(check, f"lacks {lost}")
        if added := ", ".join((own - english).elements()):
            yield Fault(check, f"has {added}, which English has not")
        item = pattern.sub(" ", item)
        translated = pattern.sub(" ", translated)


def _numbered(text: str) -> str:
    """Return a text with the numbers of months for their names: November is 11."""
    return " ".join(MONTHS.get(word, word) for word in text.split(" "))


def _swapped(items: list[str], translated: list[str], language: Language) -> Faults:
    """Yield the names and terms that one item of each has, and not the same."""
    names = set()
    for item in items:
        names |= set(NAME.findall(CODE.sub("", item)))
    pairs = [(name, name) for name in sorted(names)]
    for row in language.terms:
        term, own = row["en"], row.get(language.code)
        if own and term.isalpha():  # of one meaning
            pairs.append((term, own))

    for word, own in pairs:
        places = _places(rf"\b{re.escape(word[:STEM])}", items)
        own_places = _places(re.escape(own), translated)
        if len(places) == len(own_places) == 1 and places != own_places:
            english = f"English in item {places[0]}"
            yield Fault("order", f"has '{own}' in item {own_places[0]}, {english}")


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
        wanted, count = english.count(f"<{tag}>"), own.count(f"<{tag}>")
        if count != wanted:
            words = f"has {count} emphases as drawn, English {wanted}"
            yield Fault(tag, f"{words}; look at its asterisks")


def _faults_of_words(message: str, translation: str, language: Language) -> Faults:
    for title in TITLE.findall(message):
        if title in TITLE.findall(translation):
            message = message.replace(title, "")
            translation = translation.replace(title, "")
    english = NO_TEXT.sub(" ", message)
    own = NO_TEXT.sub(" ", CODE.sub("A", translation))

    yield from _other_choice(message, translation, language)
    if "not" in language.settings:
        wanted = len(NEGATION.findall(english))
        count = len(re.findall(language.settings["not"], own))
        if count < wanted:
            yield Fault("negation", f"has {count} where English has {wanted}")
    if left := SENTENCE.search(own):
        yield Fault("english", f"is not translated: '{left[0][:40]}'")
    yield from _avoided_terms(own, language)
    for pattern, advice in language.settings.get("wrong", {}).items():
        if match := re.search(pattern, own):
            place = own[max(0, match.start() - 6) : match.end() + 6]
            yield Fault("writing", f"{advice}: '{place}'")
    if len(english) > SHORT and not message.startswith("|"):
        yield from _unusual_length(english, own, language)


def _other_choice(message: str, translation: str, language: Language) -> Faults:
    own_choices = language.settings.get("choices", ())
    for choice, own in zip(CHOICES, own_choices, strict=False):
        if not message.startswith(f"**{choice}**"):
            continue
        if not translation.startswith(f"**{own}**"):
            words = f"names another choice than '{choice}'"
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
    if "length" not in language.settings:
        return
    least, most = language.settings["length"]
    share = len(own) / len(english)
    if not least < share < most:
        words = f"{share:.2f} letters for each of English"
        yield Fault("length", f"{words}; {least} to {most} is usual")
