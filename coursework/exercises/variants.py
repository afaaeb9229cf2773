"""What a class draws from its key: its variants, and the seeds of its hidden tests.

The key itself is never kept or shown. It is stretched, so that somebody who knows a
fingerprint cannot try many keys a second.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from typing import Any

from tools.errors import BookError

MIN_LENGTH = 8  # characters of a key
BOOK = "book"  # the name in place of a class's, in the book's own edition
ROUNDS = 200_000  # of HMAC-SHA256: a tenth of a second

# Chooses one of the values of the variant at `<chapter>/<title>/<name>`.
Draw = Callable[[str, list], Any]


def first_value(place: str, values: list) -> Any:
    """Draw for the book's own edition."""
    return values[0]


@dataclass(frozen=True)
class Draws:
    fingerprint: str  # 12 hexadecimal digits that name the class
    secret: bytes = field(repr=False)
    choose: Draw = field(repr=False)

    def seed(self, name: str) -> str:
        """Return the seed of a chapter's hidden tests, in hexadecimal digits."""
        return hmac.digest(self.secret, f"seed/{name}".encode(), "sha256").hex()


def draws_of(key: str | None) -> Draws:
    """Return what the class with this key draws.

    A class never draws a first value where there are others: those are the book's own,
    which are drawn without a key. Raises BookError if the key is too short.
    """
    if key in (None, BOOK):
        return Draws(BOOK, b"book", first_value)
    length = len(key.strip())
    if length < MIN_LENGTH:
        raise BookError(
            f"CLASS: a key of {length} characters; "
            f"take {MIN_LENGTH} or more, hard to guess"
        )

    password = key.encode(errors="surrogateescape")
    secret = pbkdf2_hmac("sha256", password, b"a class", ROUNDS)

    def choose(place: str, values: list) -> Any:
        others = values[1:] or values
        digest = hmac.digest(secret, f"variant/{place}".encode(), "sha256")
        return others[int.from_bytes(digest) % len(others)]

    fingerprint = hmac.digest(secret, b"fingerprint", "sha256").hex()
    return Draws(fingerprint[:12], secret, choose)
