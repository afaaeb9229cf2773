"""Where the book is published: the entry `repository:` of `_config.yml`."""

import re
from dataclasses import dataclass
from pathlib import Path

from tools.errors import BookError
from tools.files import read_yaml

HOST = "https://github.com/"
NO_HUB = "none"


@dataclass(frozen=True)
class Repository:
    """Where the book is published. `hub` is a JupyterHub with nbgitpuller, or empty."""

    owner: str
    name: str
    branch: str
    hub: str = ""

    @property
    def url(self) -> str:
        return f"{HOST}{self.owner}/{self.name}"

    @property
    def site(self) -> str:
        """Where GitHub publishes the site."""
        return f"https://{self.owner.lower()}.github.io/{self.name}/"


def read_repository(root: Path) -> Repository:
    """The repository that `_config.yml` names. Raises BookError if it names none, or a bad one."""
    entry = read_yaml(root / "_config.yml", root).get("repository")
    if not isinstance(entry, dict):
        raise BookError(
            "_config.yml: no 'repository:' entry with 'url' and 'branch'; add one"
        )
    slug = str(entry.get("url") or "").removeprefix(HOST)
    try:
        branch, hub = str(entry.get("branch") or ""), str(entry.get("hub") or NO_HUB)
        return make_repository(slug, branch, hub)
    except BookError as error:
        raise BookError(f"_config.yml: {error}") from None


def make_repository(slug: str, branch: str, hub: str = NO_HUB) -> Repository:
    """A repository from `owner/name`. Raises BookError for what GitHub, git or a link forbids."""
    match = re.fullmatch(
        r"([A-Za-z\d](?:-?[A-Za-z\d]){0,38})/([\w.-]{1,100})", slug, re.A
    )
    if match is None or match[2] in (".", "..") or match[2].endswith(".git"):
        raise BookError(
            f"repository '{slug}': not of the form owner/name; name one on GitHub"
        )
    if not re.fullmatch(
        r"(?![-/.])(?!.*(//|\.\.|\.lock$|[/.]$))[\w./-]+", branch, re.A
    ):
        raise BookError(
            f"branch '{branch}': not a branch's name; use letters, digits and . _ - /"
        )
    hub = "" if hub == NO_HUB else hub.rstrip("/")
    if hub and not re.fullmatch(r"https?://[\w.-]+(:\d+)?(/[\w.~-]+)*", hub, re.A):
        raise BookError(
            f"hub '{hub}': write https://hub.example.org, or '{NO_HUB}' for none"
        )
    return Repository(match[1], match[2], branch, hub)
