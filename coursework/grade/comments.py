"""The comments in an answer: some tasks ask for a sentence as a comment, which a person reads."""

import io
import tokenize

from coursework.grade.source import UNREADABLE


def own_comments(source: str, starter: str = "") -> list[tuple[int, str]]:
    """The lines of some code that hold a comment, with their numbers, but for comments that the
    starter has already."""
    known = {comment for _, comment in comments(starter)}
    lines = source.split("\n")
    own = [number for number, comment in comments(source) if comment not in known]
    return [(number, lines[number - 1].strip()) for number in own]


def comments(source: str) -> list[tuple[int, str]]:
    """The comments of some code, by line. Below what cannot be read, lines that begin with `#`."""
    found = []
    last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            last = token.start[0]
            if token.type == tokenize.COMMENT:
                found.append((last, token.string.strip()))
    except (tokenize.TokenError, *UNREADABLE):
        for number, line in enumerate(source.split("\n")[last:], start=last + 1):
            if line.lstrip().startswith("#"):
                found.append((number, line.strip()))
    return found
