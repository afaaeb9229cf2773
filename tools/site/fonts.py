"""The site's fonts, cut from the complete ones in pinned npm packages.

`make fonts` writes `book/static/fonts/`, which is committed, so that nobody else needs npm.
Beside the fonts it writes `fonts.css`, in which the fonts of systems that stand in until
these arrive are scaled to take the same room, so that text does not jump. The fonts' licence
(SIL Open Font License 1.1) reserves the name Source; what is cut goes by names of this book.
"""

import io
import shutil
from pathlib import Path
from typing import NamedTuple

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

from tools.root import ROOT
from tools.site import npm

PINNED = """\
source-sans 3.52.0 49cf78ddd79b436591ee696785222b54ff28102922e3d3df297fe382d7fdfa88
source-code-pro 2.42.0 51f898e0712c5f1b3f583b63c9ab7d51daaa9bae1d4c8dc63dc2a4b6a72d7ae4
@fontsource/arimo 5.3.0 df44945077a74905969f15bba3b442f9fb6773818b2b59c970911deace01132f
@fontsource/cousine 5.3.0 a450d4756b5b9e666464df668728dbf1c6d62548b61324d4ac5778a5da27a3b8
@fontsource/dejavu-sans 5.3.0 e5b56597f3d5d198428a2fbd0281ab0119867cdbeb6f3ea6c747196f84f8717d
@fontsource/dejavu-mono 5.3.0 36b2f77eb2762b381e3893ff4425c4bbec3130bc2b2bb8b0e67720aa0c2cfb78
@fontsource/roboto 5.3.0 77620f437249772e381698224ea1bddd01c985ecd60267a63ddc96b9eb9348f7
"""  # from npm: package, version, SHA-256 of the tarball
PACKAGES = {
    name: (version, digest) for name, version, digest in map(str.split, PINNED.splitlines())
}
SUBSETS = {  # a browser asks for a file only if the page has a character of its range
    # The last four are the minus, the sign before times, the marks of what can be unfolded.
    "latin": "U+0000-00FF, U+2000-206F, U+2212, U+2248, U+25B8, U+25BE",
    # With Vietnamese.
    "latin-ext": "U+0100-024F, U+02B0-036F, U+1E00-1EFF, U+20A0-20BF",
    # Greek, arrows, mathematics, boxes.
    "symbols": "U+0370-03FF, U+2070-209F, U+2100-2211, U+2213-2247, U+2249-25B7, U+25B9-25BD, "
    "U+25BF-27BF",
}
SAMPLE = (  # ordinary English: widths are averaged over its characters
    "A tensor lives on one device, and what is computed from it lives there too. To add two "
    "tensors, bring them together first; a copy between devices takes time, so make few of them."
)


class Face(NamedTuple):
    """A face of the site: where it is cut from, and how large it is drawn."""

    file: str
    family: str
    package: str
    source: str
    style: str
    weights: tuple[int, int]
    scale: float  # of the font size: letters as high as usual on screens, 76 of code in a line


SANS, MONO = "WOFF2/VF/SourceSans3VF", "WOFF2/VF/SourceCodeVF"
FACES = (
    Face("text", "Book Text", "source-sans", f"{SANS}-Upright", "normal", (400, 600), 1.125),
    Face("text-italic", "Book Text", "source-sans", f"{SANS}-Italic", "italic", (400, 400), 1.125),
    Face("code", "Book Code", "source-code-pro", f"{MONO}-Upright", "normal", (400, 400), 1.0),
)

# The faces of systems that may stand in for ours, by their names, and the package of one
# that measures the same.
STAND_INS = {
    "text": {
        ("Arial", "Liberation Sans"): "@fontsource/arimo",
        ("DejaVu Sans",): "@fontsource/dejavu-sans",
        ("Roboto",): "@fontsource/roboto",
    },
    "code": {
        ("Courier New", "Liberation Mono"): "@fontsource/cousine",
        ("DejaVu Sans Mono", "Menlo"): "@fontsource/dejavu-mono",
    },
}


def make_fonts(root: Path = ROOT) -> Path:
    """Write the fonts with their style sheet and licence; returns the folder they lie in.

    Raises BookError if a package cannot be fetched, or is not the pinned one.
    """
    written, rules = {"LICENSE.md": read_member("source-sans", "LICENSE.md", root)}, []
    for face in FACES:
        for part, ranges in SUBSETS.items():
            name = f"{face.file}-{part}.woff2"
            font = cut(face, ranges, face.weights, root)
            written[name] = as_bytes(font)
            rules.append(own(face, name, ranges, font))
        for names, package in STAND_INS.get(face.file, {}).items():
            for weight in sorted(set(face.weights)):
                rules.append(stand_in(face, names, package, weight, root))
    written["fonts.css"] = style_sheet(rules).encode()
    folder = root / "book" / "static" / "fonts"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in written.items():
        (folder / name).write_bytes(content)
    return folder


def read_member(package: str, member: str, root: Path) -> bytes:
    """One file of a package, or BookError."""
    return npm.read_member(package, *PACKAGES[package], member, root)


def characters(ranges: str) -> set[int]:
    """The code points of ranges as CSS writes them: "U+0000-007F, U+20AC"."""
    bounds = [part.strip(" U+").split("-") for part in ranges.split(",")]
    return {code for ends in bounds for code in range(int(ends[0], 16), int(ends[-1], 16) + 1)}


def cut(face: Face, ranges: str, weights: tuple[int, int], root: Path) -> TTFont:
    """The font of a face, cut to some characters and weights, without hints, by our name."""
    font = TTFont(
        io.BytesIO(read_member(face.package, f"{face.source}.ttf.woff2", root)),
        recalcTimestamp=False,
    )
    options = subset.Options(
        layout_features=["kern", "mark", "mkmk", "ccmp", "locl"],
        hinting=False,
        notdef_outline=True,
        name_IDs=[0, 13, 14],  # copyright and licence
    )
    options.drop_tables += ["STAT"]
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters(ranges))
    cutter.subset(font)
    low, high = weights
    limits = {"wght": low if low == high else (low, low, high)}
    font = instantiateVariableFont(TTFont(io.BytesIO(as_bytes(font))), limits)
    for number, name in {1: face.family, 2: face.style, 4: face.file, 6: face.file}.items():
        font["name"].setName(name, number, 3, 1, 0x409)
    font.flavor, font.recalcTimestamp = "woff2", False  # the same bytes whenever it is made
    return font


def as_bytes(font: TTFont) -> bytes:
    """The file that a font makes."""
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()


def own(face: Face, name: str, ranges: str, font: TTFont) -> dict[str, str]:
    """What the style sheet says of one file of a face."""
    return {
        "font-family": f'"{face.family}"',
        "src": f'url({name}) format("woff2")',
        "font-weight": " ".join(str(weight) for weight in sorted(set(face.weights))),
        "font-style": face.style,
        "font-display": "swap",
        "unicode-range": ranges,
        **measures(font, face.scale),
    }


def stand_in(
    face: Face, names: tuple[str, ...], package: str, weight: int, root: Path
) -> dict[str, str]:
    """What it says of a face of a system: as large as makes a text as wide and high as in ours."""
    boldness, bold = (400, "") if weight == 400 else (700, " Bold")
    file = f"files/{package.split('/')[1]}-latin-{boldness}-normal.woff2"
    theirs = TTFont(io.BytesIO(read_member(package, file, root)), recalcTimestamp=False)
    ours = cut(face, SUBSETS["latin"], (weight, weight), root)
    return {
        "font-family": f'"{face.family} as {names[0]}"',
        "src": ", ".join(f'local("{name}{bold}")' for name in names),
        "font-weight": str(weight),
        **measures(ours, face.scale, width(ours) / width(theirs)),
    }


def measures(font: TTFont, scale: float, ratio: float = 1) -> dict[str, str]:
    """The heights of a line of `font`, for a face that is `ratio` as large in the same place."""
    line, em = font["hhea"], font["head"].unitsPerEm * ratio
    return {
        "size-adjust": f"{scale * ratio:.2%}",
        "ascent-override": f"{line.ascent / em:.2%}",
        "descent-override": f"{-line.descent / em:.2%}",
        "line-gap-override": f"{line.lineGap / em:.2%}",
    }


def width(font: TTFont) -> float:
    """The mean width of a character of SAMPLE in em."""
    glyphs, advances = font.getBestCmap(), font["hmtx"]
    total = sum(advances[glyphs[ord(character)]][0] for character in SAMPLE)
    return total / len(SAMPLE) / font["head"].unitsPerEm


def style_sheet(rules: list[dict[str, str]]) -> str:
    """The style sheet of all faces."""
    packages = "\n".join(f"   {name} {version}" for name, (version, _) in PACKAGES.items())
    text = (
        "/* Written by `make fonts`. The files are cut from the first two of these npm packages,\n"
        f"   licence in LICENSE.md; the others were measured.\n{packages} */\n"
    )
    for rule in rules:
        lines = "".join(f"  {name}: {value};\n" for name, value in rule.items())
        text += f"@font-face {{\n{lines}}}\n"
    return text
