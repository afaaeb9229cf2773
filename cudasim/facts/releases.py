"""What a release of cudasim says has changed."""

from pathlib import Path

import cudasim

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def changes(tag: str) -> str:
    """Return the section of the changelog for the version that `tag` names.

    Raises ValueError if the package has another version, or the changelog no section of it
    that begins with its day.
    """
    version = cudasim.__version__
    if tag != f"cudasim-{version}":
        raise ValueError(f"{tag}: the package is version {version}; tag that")
    text = CHANGELOG.read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## {version} - 20")
    if not section:
        advice = f"write '## {version} - YYYY-MM-DD', with the day of the release"
        raise ValueError(f"{CHANGELOG}: no section of {version}: {advice}")
    body = section.partition("\n")[2]
    return body.partition("\n## ")[0].strip()
