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


class TranslationFault(NamedTuple):
    """The name of the check that found it, and what is wrong."""

    check: str
    words: str


TranslationFaults = Iterator[TranslationFault]


def faults(entry: Message, language: Language) -> TranslationFaults:
    """Yield what is wrong with the translation of a message, but for dropped checks."""
    dropped = _dropped_checks(entry)
    for check in dropped:
        if check not in CHECKS:
            known = ", ".join(sorted(CHECKS))
            words = f"'# {UNLIKE}' names no check: '{check}'; use one of {known}"
            yield TranslationFault("unlike", words)
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


def _faults(entry: Message, language: Language) -> TranslationFaults:
    message = entry.id
    translation = entry.string
    if entry.context.startswith("img/"):
        yield from _undrawn_letters(translation, language)
    if "\n\n" in translation or translation != translation.strip():
        words = "is no single block; drop empty lines, and space around it"
        yield TranslationFault("block", words)
    yield from _faults_of_items(message, translation, language)
    yield from _faults_of_emphasis(message, translation)
    level = HEADING.match(message)[0]
    if HEADING.match(translation)[0] != level:
        yield TranslationFault("heading", f"is no heading as '{message[:20]}' is")
    yield from _faults_of_words(message, translation, language)


def _undrawn_letters(translation: str, language: Language) -> TranslationFaults:
    undrawn = sorted(set(translation) - language.letters)
    if undrawn:
        letters = "".join(undrawn)
        yield TranslationFault("letter", f"no font of the figures draws {letters}")


def _faults_of_items(
    message: str, translation: str, language: Language
) -> TranslationFaults:
    items = ITEM.split(message)
    translated = ITEM.split(translation)
    if len(items) != len(translated):
        count = f"has {len(translated)} items or rows"
        yield TranslationFault("item", f"{count} where English has {len(items)}")
        return
    if len(items) == 1:
        yield from _not_kept(message, translation)
        return
    pairs = zip(items, translated, strict=True)
    for number, (item, translated_item) in enumerate(pairs, start=1):
        for fault in _not_kept(item, translated_item):
            yield TranslationFault(fault.check, f"{fault.words} in item {number}")
    yield from _swapped(items, translated, language)


def _not_kept(item: str, translated: str) -> TranslationFaults:
    """Yield what a translated item lacks, or has beyond what English has."""
    for check, pattern in KEPT.items():
        if check == "number":
            item = _numbered(item)
            translated = _numbered(translated)
        english = _occurrences(pattern, item)
        kept = _occurrences(pattern, translated)
        lost = english - kept
        if lost:
            yield TranslationFault(check, f"lacks {', '.join(lost.elements())}")
        added = kept - english
        if added:
            words = ", ".join(added.elements())
            yield TranslationFault(check, f"has {words}, which English has not")
        item = re.sub(pattern, " ", item)
        translated = re.sub(pattern, " ", translated)


def _occurrences(pattern: str, text: str) -> Counter[str]:
    return Counter(match[0] for match in re.finditer(pattern, text))


def _numbered(text: str) -> str:
    """Return a text with the numbers of months for their names: November is 11."""
    return " ".join(MONTHS.get(word, word) for word in text.split(" "))


def _swapped(
    items: list[str], translated: list[str], language: Language
) -> TranslationFaults:
    """Yield names and terms that occur in one item of each text, at different positions."""
    for word, translation in _names(items) + _terms(language):
        numbers = _items_with(rf"\b{re.escape(word[:STEM])}", items)
        translated_numbers = _items_with(re.escape(translation), translated)
        if len(numbers) != 1 or len(translated_numbers) != 1:
            continue
        [number] = numbers
        [translated_number] = translated_numbers
        if translated_number != number:
            where = f"in item {translated_number}, English in item {number}"
            yield TranslationFault("order", f"has '{translation}' {where}")


def _names(items: list[str]) -> list[tuple[str, str]]:
    """Return the names in items, which are the same in every language."""
    text = CODE.sub("", "\n".join(items))
    return [(name, name) for name in sorted(set(NAME.findall(text)))]


def _terms(language: Language) -> list[tuple[str, str]]:
    """Return the one-word terms, each with its translation."""
    terms = []
    for row in language.terms:
        translation = row.get(language.code)
        if translation and row["en"].isalpha():
            terms.append((row["en"], translation))
    return terms


def _items_with(pattern: str, items: list[str]) -> list[int]:
    """Return the numbers of the items that hold a pattern outside code."""
    numbers = []
    for number, item in enumerate(items, start=1):
        if re.search(pattern, CODE.sub("", item), re.IGNORECASE):
            numbers.append(number)
    return numbers


def _faults_of_emphasis(message: str, translation: str) -> TranslationFaults:
    """Compare emphases as drawn: beside full-width marks a ** may be none."""
    english = MARKDOWN.render(message)
    translated = MARKDOWN.render(translation)
    for tag in ("strong", "em"):
        wanted = english.count(f"<{tag}>")
        count = translated.count(f"<{tag}>")
        if count != wanted:
            words = f"has {count} emphases as drawn, English {wanted}"
            yield TranslationFault(tag, f"{words}; look at its asterisks")


def _faults_of_words(
    message: str, translation: str, language: Language
) -> TranslationFaults:
    quoted = TITLE.findall(translation)
    for title in TITLE.findall(message):
        if title in quoted:
            message = message.replace(title, "")
            translation = translation.replace(title, "")
    english = NO_TEXT.sub(" ", message)
    # A letter stands for code: a rule on what is next to Latin letters covers code, too.
    translated = NO_TEXT.sub(" ", CODE.sub("A", translation))

    yield from _other_choice(message, translation, language)
    if language.negation:
        wanted = len(NEGATION.findall(english))
        count = len(re.findall(language.negation, translated))
        if count < wanted:
            words = f"has {count} where English has {wanted}"
            yield TranslationFault("negation", words)
    if left := SENTENCE.search(translated):
        yield TranslationFault("english", f"is not translated: '{left[0][:40]}'")
    yield from _avoided_terms(translated, language)
    for pattern, advice in language.wrong.items():
        if match := re.search(pattern, translated):
            start = max(0, match.start() - AROUND)
            excerpt = translated[start : match.end() + AROUND]
            yield TranslationFault("writing", f"{advice}: '{excerpt}'")
    is_row = message.startswith("|")
    if language.length and len(english) > SHORT and not is_row:
        yield from _unusual_length(english, translated, language)


def _other_choice(
    message: str, translation: str, language: Language
) -> TranslationFaults:
    index = right_choice(message)
    if index is None or not message.startswith("**"):
        return
    choice = language.choices[index]
    if not translation.startswith(f"**{choice}**"):
        words = f"names another choice than '{CHOICES[index]}'"
        yield TranslationFault("choice", f"{words}; let it begin with **{choice}**")


def _avoided_terms(translated: str, language: Language) -> TranslationFaults:
    for row in language.terms:
        avoided = row.get(f"avoid in {language.code}") or ""
        for word in avoided.split(";"):
            word = word.strip()
            if not word:
                continue
            pattern = re.escape(word)
            if word[0] < IDEOGRAPHS:
                pattern = rf"\b{pattern}\b"
            if re.search(pattern, translated, re.IGNORECASE):
                yield TranslationFault("term", f"has '{word}', which {TERMS} avoids")


def _unusual_length(
    english: str, translated: str, language: Language
) -> TranslationFaults:
    least, most = language.length
    share = len(translated) / len(english)
    if not least < share < most:
        words = f"{share:.2f} letters for each of English"
        yield TranslationFault("length", f"{words}; {least} to {most} is usual")
