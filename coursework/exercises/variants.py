"""What a class draws: its variants, and the seeds of its hidden tests, all from one key.

The key is never kept or shown. It is stretched: who knows a fingerprint cannot try many a second.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from typing import Any

from tools.errors import BookError

LEAST = 8  # characters of a key
BOOK = "book"  # the name of the class that is none: the book's own edition
ROUNDS = 200_000  # of HMAC-SHA256: a tenth of a second


@dataclass(frozen=True)
class Draws:
    fingerprint: str  # 12 hexadecimal digits that name the class
    secret: bytes = field(repr=False)
    choose: Callable[[str, list], Any] = field(
        repr=False
    )  # see `coursework.exercises.masters.Draw`

    def seed(self, name: str) -> str:
        """The seed of the hidden tests of a chapter, hexadecimal."""
        return hmac.digest(self.secret, f"seed/{name}".encode(), "sha256").hex()


def draws_of(key: str | None) -> Draws:
    """The draws by a class's key, never first values; without one the book's, all first."""
    if key in (None, BOOK):
        return Draws(BOOK, b"book", lambda _, values: values[0])
    if (count := len(key.strip())) < LEAST:
        raise BookError(
            f"CLASS: a key of {count} characters; take {LEAST} or more, hard to guess"
        )
    secret = pbkdf2_hmac(
        "sha256", key.encode(errors="surrogateescape"), b"a class", ROUNDS
    )

    def choose(place: str, values: list) -> Any:
        others = values[1:] or values
        drawn = hmac.digest(secret, f"variant/{place}".encode(), "sha256")
        return others[int.from_bytes(drawn) % len(others)]

    fingerprint = hmac.digest(secret, b"fingerprint", "sha256").hex()
    return Draws(fingerprint[:12], secret, choose)
