"""reveal.js, which steps through the decks: its script, its style and its speaker's view.

`make reveal` writes them to `book/slides/reveal/` as they are in the pinned npm package, with
their licence (MIT). They are committed, so that nobody else needs npm.
"""

from pathlib import Path

from tools.root import ROOT
from tools.site import npm

PACKAGE, VERSION = "reveal.js", "6.0.2"
DIGEST = "2f0c20bfb02447a198a1ebe8a8c097a5437d035caa38f2820bf4ba887a3eac91"
FOLDER = "book/slides/reveal"
FILES = {  # by name, where it is in the package
    "reveal.js": "dist/reveal.js",
    "reveal.css": "dist/reveal.css",
    "notes.js": "dist/plugin/notes.js",
    "LICENSE": "LICENSE",
}


def write_reveal(root: Path = ROOT) -> Path:
    """Write its files afresh; returns their folder. Raises BookError if it cannot be fetched."""
    folder = root / FOLDER
    contents = {
        name: npm.read_member(PACKAGE, VERSION, DIGEST, member, root)
        for name, member in FILES.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder
