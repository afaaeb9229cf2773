"""What a release of cudasim says has changed."""

import re
from pathlib import Path

import cudasim

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
PREFIX = "cudasim-"


def changes(tag: str) -> str:
    """Return the section of the changelog for the version that `tag` names.

    Raises ValueError if the package has another version, or the changelog has no dated
    section for it.
    """
    version = tag.removeprefix(PREFIX)
    if tag != PREFIX + cudasim.__version__:
        expected = PREFIX + cudasim.__version__
        raise ValueError(
            f"{tag}: the package is version {cudasim.__version__}, so the tag is {expected}"
        )
    sections = re.split(
        r"^## ", CHANGELOG.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    for section in sections[1:]:
        title, _, text = section.partition("\n")
        if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", title):
            return text.strip() + "\n"
    advice = f"write '## {version} - YYYY-MM-DD', with the day of the release"
    raise ValueError(f"{CHANGELOG}: no section of {version}: {advice}")
