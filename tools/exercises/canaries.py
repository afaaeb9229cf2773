"""Nothing hidden is in what students get: shown with canaries, and line by line.

Every hidden part of a second build is sown with words that stand nowhere else. Whatever way
a part took into the student edition (an output, metadata, an attachment, a name in a zip, packed
or encoded), its canary is found there.
"""

import io
import json
import re
import secrets
import zipfile
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from tools.exercises.archive import zipped
from tools.exercises.assignment import Assignment
from tools.exercises.masters import Exercise, Master, Part

HIDDEN = ("Hidden tests", "Solution", "Wrong answer", "For instructors", "By hand", "Variants")
CANARY = re.compile(rb"canary[0-9a-f]{20}")
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}")
PACKED = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")  # how gzip and zlib begin
HEXADECIMAL = re.compile(rb"(?:[0-9a-fA-F]{2}){12,}")
DEPTH = 4  # how often something may be packed into something
LEAST = 25  # characters of a line that is not there by chance

Draft = tuple[Master, Assignment]
Files = dict[str, bytes]  # by path
Build = Callable[[list[Draft]], Files]


def leaks(drafts: list[Draft], build: Build) -> Iterator[str]:
    """A line for each hidden part that the student edition, as `build` makes it, holds."""
    sown, owner = [], {}
    for master, assignment in drafts:
        master, canaries = marked(master)
        owner |= canaries
        questions = {each.number: each for each in master.exercises}
        asked = [
            replace(
                each,
                tests=questions[each.number].code("Hidden tests"),
                by_hand=questions[each.number].by_hand,
            )
            for each in assignment.questions
        ]
        seed = _canary()
        owner[seed] = f"{master.where}: the seed of its hidden tests"
        sown.append((master, replace(assignment, questions=asked, seed=seed)))
    files = build(sown)
    found = {}
    for name, data in {**files, "student.zip": zipped(files)}.items():
        for canary in canaries_in(name.encode()) | canaries_in(data):
            found.setdefault(owner[canary], name)  # the file, before the archive that holds it
    for part, name in found.items():
        yield f"{part} is in student/{name}; take it out there"
    yield from _lines(drafts, build(drafts))


def marked(master: Master) -> tuple[Master, dict[str, str]]:
    """A master with a canary in each hidden part, and where each canary was put."""
    owner, exercises = {}, []
    for exercise in master.exercises:
        parts = dict(exercise.parts)
        for name in HIDDEN:
            canary = _canary()
            owner[canary] = f"{master.where}: exercise {exercise.number}: the part '{name}'"
            parts[name] = [_sown(part, canary) for part in parts[name]]
        exercises.append(replace(exercise, parts=parts))
    return replace(master, exercises=exercises), owner


def _canary() -> str:
    return f"canary{secrets.token_hex(10)}"


def _sown(part: Part, canary: str) -> Part:
    """A part with the canary in each line, so that half of it is found, too."""

    def text(source: str) -> str:
        return "\n".join(f"{line} {canary}" if line else line for line in source.split("\n"))

    def code(source: str) -> str:
        """Code that Python still reads: in its comments, strings of several lines, and names."""
        source = re.sub(r"\bdef (\w+)", rf"def \1_{canary}", source)
        source = re.sub(r'("""|\'\'\')(?=[\w\'"`])', rf"\1{canary} ", source)
        return re.sub(r"(?m)(?<=[^\\\n])$", f"  # {canary}", source)

    return replace(
        part,
        whole=text(part.whole),
        text=text(part.text),
        blocks=[code(block) for block in part.blocks],
    )


def canaries_in(data: bytes) -> set[str]:
    """The canaries in some bytes, as they are or unpacked."""
    return {match[0].decode() for form in forms(data) for match in CANARY.finditer(form)}


def forms(data: bytes, depth: int = DEPTH) -> Iterator[bytes]:
    """Some bytes, and what they hold encoded (base64, hexadecimal) or packed (gzip, zlib, zip)."""
    yield data
    if depth:
        for inner in _unpacked(data):
            yield from forms(inner, depth - 1)


def _unpacked(data: bytes) -> Iterator[bytes]:
    yield from (text.encode() for text in texts(data))
    joined = data.replace(b"\n", b"")  # base64 is broken into lines
    for text in {data, joined}:
        for match in BASE64.finditer(text):
            run = match[0].replace(b"-", b"+").replace(b"_", b"/")
            for start in range(4):  # letters before it shift it
                whole = run[start : start + (len(run) - start) // 4 * 4]
                yield b64decode(whole + run[start + len(whole) :].ljust(4, b"A"))
        for match in HEXADECIMAL.finditer(text):
            for start in (0, 1):
                run = match[0][start:]
                yield bytes.fromhex(run[: len(run) // 2 * 2].decode())
    for match in PACKED.finditer(data):
        with suppress(zlib.error):  # bytes that only look so
            yield zlib.decompressobj(wbits=47).decompress(data[match.start() :])
    if b"PK\x03\x04" in data:
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive.comment
            for each in archive.infolist():
                yield each.filename.encode() + each.comment + each.extra
                yield archive.read(each)


def texts(data: bytes) -> list[str]:
    """The texts in JSON, names too, the lines of each put together; none in anything else."""
    try:
        content = json.loads(data)
    except ValueError:
        return []
    return [text for text in _texts(content) if text]


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list) and all(isinstance(each, str) for each in content):
        yield "".join(content)
    elif isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for name, value in items:
            yield str(name)
            yield from _texts(value)


def _lines(drafts: list[Draft], files: Files) -> Iterator[str]:
    """A line for each whole line of a hidden part that is in a file and was given nowhere."""
    given = "\n".join(text for master, assignment in drafts for text in _given(master, assignment))
    found = {
        name: "\n".join(texts(data)) or data.decode(errors="replace")
        for name, data in files.items()
    }
    for master, _ in drafts:
        for exercise in master.exercises:
            for line in sorted(_hidden_lines(exercise)):
                for name in (name for name, text in found.items() if line in text):
                    if line not in given:
                        yield (
                            f"{master.where}: exercise {exercise.number}: a hidden line is in "
                            f"student/{name}: '{line}'; take it out there"
                        )


def _given(master: Master, assignment: Assignment) -> Iterator[str]:
    """What students may see: code that is given, texts, hints, starters, public checks."""
    yield from (source for _, source in assignment.cells())
    for exercise in master.exercises:
        yield from (exercise.text, *exercise.hints)


def _hidden_lines(exercise: Exercise) -> set[str]:
    parts = [part for name in HIDDEN[:-1] for part in exercise.parts[name]]
    lines = {line.strip() for part in parts for line in part.whole.splitlines()}
    return {line for line in lines if len(line) >= LEAST}
