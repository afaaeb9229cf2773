"""The table of what raises, what copies and what moves: from programs that ran, never typed."""

import html
import json
import re
from collections.abc import Iterator

import yaml

from tools.book.book import Book
from tools.errors import BookError
from tools.files import read_text
from tools.site.status import table

ROWS = "book/operations/rows.yml"
NAMES = {"pytorch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow", "mxnet": "MXNet"}


def operations_table(book: Book) -> list[str]:
    runs = {name: read_run(book, name) for name in NAMES}
    lines = []
    for section, rows in yaml.safe_load(read_text(book.root / ROWS, book.root)).items():
        asked = {name: [row] if isinstance(row, str) else row for name, row in rows.items()}
        cells = [
            [words, *(entry(name, run, *on) for run in runs.values())]
            for name, (words, *on) in asked.items()
        ]
        lines += ["", f"**{section}**", "", *table(["Operation", *NAMES.values()], cells), ""]
        for name, (words, *_) in asked.items():
            lines += programs(name, words, runs)
    made = [f"{NAMES[name]} {run['version']} on {run['date']}" for name, run in runs.items()]
    return [*lines, "", f"Recorded with {', '.join(made)}."]


def read_run(book: Book, framework: str) -> dict:
    """What the programs of a framework said. Raises BookError if it is not recorded."""
    where = f"outputs/operations/{framework}.json"
    if not (book.root / where).is_file():
        raise BookError(f"{where}: nothing is recorded; run 'book/operations/run.py {framework}'")
    return json.loads(read_text(book.root / where, book.root))


def entry(name: str, run: dict, on: str | None = None) -> str:
    """An entry of the table: what came of a program, whose operands were `on` a device or apart."""
    if name not in run["rows"]:
        return "needs a GPU"
    found = run["rows"][name]
    text = found.get("answer", "raises")
    home = dict(zip("XY", run["places"], strict=False)).get(on, text)
    if "error" not in found and on == "apart":
        # MXNet's contexts share the host's memory: that something was copied does not follow.
        text = f"{'passes' if run['framework'] == 'mxnet' else 'copies'}, to {text}"
    elif text != home:
        text = f"moves, to {text}"
    return f'<a href="#{name}">{text}</a>'


def programs(name: str, words: str, runs: dict[str, dict]) -> Iterator[str]:
    """A fold with the programs of a row, and what each said."""
    title = re.sub(r"`(.+?)`", r"<code>\1</code>", html.escape(words))
    yield from (f"<details><summary>{title}</summary>", f'<a id="{name}"></a>', "")
    for framework, run in runs.items():
        if found := run["rows"].get(name):
            said = found.get("answer") or f"{found['error']}: {found['message']}"
            yield from (f"{NAMES[framework]}:", "", "```python", *found["program"].splitlines())
            yield from ("```", "", "```text", said, "```", "")
    yield from ("</details>", "")
