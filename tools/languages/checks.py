"""What a translation must keep of its message, and what it must not hold.

Where a check is wrong and the translator right, the comment `# unlike: negations` above the message
in the `.po` drops that check there.
"""

import re
from calendar import month_name
from collections import Counter
from collections.abc import Iterator

from babel.messages.catalog import Message

from tools.book.cells import MARKDOWN
from tools.book.grammar import CHOICES
from tools.files import read_beside
from tools.languages.language import TERMS, Language
from tools.languages.messages import NO_TEXT

UNLIKE = "unlike:"  # a comment that begins so names checks that do not hold for a message

# What stays as it is, in each item of a list and each row of a table; each within none before it.
KEPT = {name: re.compile(kept) for name, kept in read_beside(__file__, "kept.yml").items()}
CODE = KEPT["code"]
ITEM = re.compile(r"\n(?=\s*(?:[-*]|\d+\.|\|) ?)")
HEADING = re.compile(r"#* ?")
NAME = re.compile(r"\b(?=\w*[A-Z]\w*[A-Z])[A-Za-z]+?(?=s?\b)")  # GPU, PyTorch: not translated
NOT = re.compile(r"\b(?:not|no|never|nothing|none|nobody|without|cannot|neither)\b|n't\b", re.I)
SENTENCE = re.compile(r"(?:\b[a-z]+,? ){4,}[a-z]+\b")  # five words of English in a row

TITLE = re.compile(r"(?<!\*)\*[^*\n]+\*(?!\*)")  # what is quoted as it is, in both
MONTHS = {name: str(number) for number, name in enumerate(month_name) if name}

Fault = tuple[str, str]  # the name of the check, and what is wrong


def faults(entry: Message, language: Language) -> Iterator[Fault]:
    """What is wrong with the translation of a message."""
    unlike = (comment.partition(UNLIKE)[2] for comment in entry.user_comments)
    dropped = re.findall(r"[^\s,]+", " ".join(unlike))
    if entry.context.startswith("img/") and (boxes := {*entry.string} - language.letters):
        yield "letter", f"no font of the figures draws {''.join(sorted(boxes))}"
    for name, fault in found(entry.id, entry.string, language):
        if name not in dropped:
            yield name, fault


def found(message: str, said: str, language: Language) -> Iterator[Fault]:
    if "\n\n" in said or said != said.strip():
        yield "block", "is no single block; drop empty lines, and space around it"
    items, others = ITEM.split(message), ITEM.split(said)
    if len(items) != len(others):
        yield "item", f"has {len(others)} items or rows where English has {len(items)}"
    elif len(items) == 1:
        yield from not_kept(message, said)
    else:
        for place, pair in enumerate(zip(items, others, strict=True), start=1):
            yield from ((name, f"{fault} in item {place}") for name, fault in not_kept(*pair))
        yield from swapped(items, others, language)
    drawn = [MARKDOWN.render(text) for text in (message, said)]
    for mark in ("strong", "em"):  # as drawn: beside full-width marks a ** may be none
        one, two = (text.count(f"<{mark}>") for text in drawn)
        if one != two:
            yield mark, f"has {two} emphases as drawn, English {one}; look at its asterisks"
    if HEADING.match(message)[0] != HEADING.match(said)[0]:
        yield "heading", f"is no heading as '{message[:20]}' is"
    yield from words_of(message, said, language)


def not_kept(item: str, other: str) -> Iterator[Fault]:
    texts = item, other
    for name, kept in KEPT.items():
        if name == "number":  # November is 11
            texts = [" ".join(MONTHS.get(word, word) for word in t.split(" ")) for t in texts]
        one, two = (Counter(match[0] for match in kept.finditer(text)) for text in texts)
        if lost := ", ".join((one - two).elements()):
            yield name, f"lacks {lost}"
        if come := ", ".join((two - one).elements()):
            yield name, f"has {come}, which English has not"
        texts = [kept.sub(" ", text) for text in texts]


def swapped(items: list[str], others: list[str], language: Language) -> Iterator[Fault]:
    """A name or a term that one item of each has, and not the same."""
    names = {name for item in items for name in NAME.findall(CODE.sub("", item))}
    known = [(row["en"], row.get(language.code)) for row in language.terms]
    pairs = [(term, said) for term, said in known if said and term.isalpha()]  # of one meaning
    for term, said in [*zip(names, names, strict=True), *pairs]:
        places = places_of(rf"\b{re.escape(term[:7])}", items)
        now = places_of(re.escape(said), others)
        if len(places) == len(now) == 1 and places != now:
            yield "order", f"has '{said}' in item {now[0]}, English in item {places[0]}"


def places_of(term: str, items: list[str]) -> list[int]:
    texts = enumerate((CODE.sub("", item) for item in items), start=1)
    return [place for place, text in texts if re.search(term, text, re.I)]


def words_of(message: str, said: str, language: Language) -> Iterator[Fault]:
    settings = language.settings
    for title in {*TITLE.findall(message)} & {*TITLE.findall(said)}:
        message, said = message.replace(title, ""), said.replace(title, "")
    english, words = NO_TEXT.sub(" ", message), NO_TEXT.sub(" ", CODE.sub("A", said))
    for first, choice in zip(CHOICES, settings.get("choices", ()), strict=False):
        if message.startswith(f"**{first}**") and not said.startswith(f"**{choice}**"):
            yield "choice", f"names another choice than '{first}'; let it begin with **{choice}**"
    if "not" in settings:
        least, less = len(NOT.findall(english)), len(re.findall(settings["not"], words))
        if less < least:
            yield "negation", f"has {less} where English has {least}"
    if left := SENTENCE.search(words):
        yield "english", f"is not translated: '{left[0][:40]}'"
    avoided = ";".join(row.get(f"avoid in {language.code}") or "" for row in language.terms)
    for word in filter(None, map(str.strip, avoided.split(";"))):
        if re.search(rf"\b{re.escape(word)}\b" if word[0] < "\u3000" else word, words, re.I):
            yield "term", f"has '{word}', which {TERMS} avoids"
    for pattern, mend in settings.get("wrong", {}).items():
        if match := re.search(pattern, words):
            yield "writing", f"{mend}: '{words[max(0, match.start() - 6) : match.end() + 6]}'"
    if len(english) > 60 and message[0] != "|" and "length" in settings:
        least, most = settings["length"]
        if not least < (share := len(words) / len(english)) < most:
            yield "length", f"{share:.2f} letters for each of English; {least} to {most} is usual"
