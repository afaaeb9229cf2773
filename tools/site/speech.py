"""The language that this process draws the site in.

`tr` says in it what stands around the pages: in Python, in templates, in scripts. What is so
marked, `python -m tools languages` finds.
"""

import re
from collections.abc import Sequence

from tools.book.grammar import CHOICES, DEEPER
from tools.languages.language import Language
from tools.languages.messages import SITE

CORES = re.compile(r"\b(\d+) cores\b")
_spoken: Language | None = None  # None is English


def speak(language: Language) -> None:
    global _spoken
    _spoken = language


def spoken() -> Language | None:
    return _spoken


def tr(message: str) -> str:
    return _spoken.say(SITE, message) if _spoken else message


def punctuated(text: str) -> str:
    """A text that is put together of words, with the marks that the language sets between them."""
    for mark, own in _spoken.settings.get("marks", {}).items() if _spoken else ():
        text = text.replace(mark, own)
    return text


def facts(text: str) -> str:
    """What recordings say of the machine that made them, in the language of the site."""
    return CORES.sub(lambda found: tr("{0} cores").format(found[1]), punctuated(text))


def deeper() -> str:
    """How a heading begins that leads off the path."""
    return _spoken.settings["deeper"] if _spoken else DEEPER


def choices() -> Sequence[str]:
    """How an answer begins that says which choice is right, in their order."""
    return _spoken.settings["choices"] if _spoken else CHOICES


def locale() -> str:
    return _spoken.settings["locale"] if _spoken else "en"
