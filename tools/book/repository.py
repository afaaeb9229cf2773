"""Where the book is published, and the services that run its notebooks from there.

The entry `repository:` of `_config.yml` names that place; `services.yml` lists the services.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from tools.errors import BookError
from tools.files import read_beside, read_yaml

HOST = "https://github.com/"
NO_HUB = "none"

# What GitHub takes for an owner and a name, git for a branch, and a link for a hub.
SLUG = re.compile(
    r"(?P<owner>[A-Za-z\d](?:-?[A-Za-z\d]){0,38})/(?P<name>[\w.-]{1,100})", re.ASCII
)
BRANCH = re.compile(r"(?![-/.])(?!.*(//|\.\.|\.lock$|[/.]$))[\w./-]+", re.ASCII)
HUB = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w.~-]+)*", re.ASCII)


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
    """Return the repository that `_config.yml` names.

    Raises BookError if it names none, or a bad one.
    """
    entry = read_yaml(root / "_config.yml", root).get("repository")
    if not isinstance(entry, dict):
        raise BookError(
            "_config.yml", "no 'repository:' entry with 'url' and 'branch'", "add one"
        )
    slug = str(entry.get("url") or "").removeprefix(HOST)
    branch = str(entry.get("branch") or "")
    hub = str(entry.get("hub") or NO_HUB)
    try:
        return make_repository(slug, branch, hub)
    except BookError as error:
        raise BookError("_config.yml", str(error)) from None


def make_repository(slug: str, branch: str, hub: str = NO_HUB) -> Repository:
    """Return a repository made from `owner/name`.

    Raises BookError for what GitHub, git or a link forbids.
    """
    match = SLUG.fullmatch(slug)
    if match is None or match["name"] in (".", "..") or slug.endswith(".git"):
        raise BookError(
            f"repository '{slug}'", "not of the form owner/name", "name one on GitHub"
        )
    if not BRANCH.fullmatch(branch):
        raise BookError(
            f"branch '{branch}'",
            "not a branch's name",
            "use letters, digits and . _ - /",
        )
    hub = "" if hub == NO_HUB else hub.rstrip("/")
    if hub and not HUB.fullmatch(hub):
        raise BookError(
            f"hub '{hub}'", f"write https://hub.example.org, or '{NO_HUB}' for none"
        )
    return Repository(match["owner"], match["name"], branch, hub)


# Services.


@dataclass(frozen=True)
class Service:
    """A service that runs notebooks of a repository on GitHub."""

    label: str
    url: str  # with names in braces for the parts of the address
    advice: str  # what a reader does there
    hub: bool | None = None  # offered only where a hub is known, or only where none is
    translated: bool = False  # whether the label has words of a language


SERVICES = [Service(**entry) for entry in read_beside(__file__, "services.yml")]


@dataclass(frozen=True)
class Link:
    """One way to run a chapter."""

    label: str
    url: str
    advice: str


def notebook_links(path: str, repository: Repository) -> list[Link]:
    """Return the links of a notebook in a repository, one for each service that suits."""
    pull = {
        "repo": repository.url,
        "branch": repository.branch,
        "urlpath": f"lab/tree/{repository.name}/{path}",
    }
    links = []
    for service in SERVICES:
        if service.hub is not None and service.hub != bool(repository.hub):
            continue
        url = service.url.format(
            path=path,
            owner=repository.owner,
            name=repository.name,
            branch=repository.branch,
            quoted_branch=quote(repository.branch, safe=""),
            hub=repository.hub,
            pull=urlencode(pull, quote_via=quote, safe=""),
        )
        links.append(Link(service.label, url, service.advice))
    return links


def services_row(
    path: str, repository: Repository, say: Callable[[str], str] = str
) -> str:
    """Return the row of links in a chapter; `say` translates their labels."""
    links = notebook_links(path, repository)
    return ", ".join(f"[{say(link.label)}]({link.url})" for link in links)
