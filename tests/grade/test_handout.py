"""Links to a repository that holds the student edition alone."""

import json
import re
from urllib.parse import parse_qs, urlparse

from helpers import refused

from tools.book.repository import make_repository
from tools.grade.exchange.handout import handout

CLASS = make_repository("jdoe/gpus-2026", "main", "https://hub.example.org")


def test_a_line_for_each_notebook(tmp_path):
    titles = {"computing-devices": "Computing devices", "puzzles": "Puzzles"}
    chapters = [{"name": name, "title": title} for name, title in titles.items()]
    (tmp_path / "manifest.json").write_text(json.dumps({"chapters": chapters}))
    first, second = handout(tmp_path, CLASS).splitlines()
    links = dict(re.findall(r"\[(.+?)\]\((\S+?)\)", first))
    assert first.startswith("- Computing devices: [") and second.startswith("- Puzzles: [")
    notebook = "github/jdoe/gpus-2026/blob/main/computing-devices.ipynb"
    assert links.pop("Google Colab") == f"https://colab.research.google.com/{notebook}"
    studio = links.pop("SageMaker Studio Lab")
    assert studio == f"https://studiolab.sagemaker.aws/import/{notebook}"
    assert links.pop("Download").endswith("/jdoe/gpus-2026/main/computing-devices.ipynb")
    pull = urlparse(links.pop("JupyterHub"))
    assert not links
    assert (pull.netloc, pull.path) == ("hub.example.org", "/hub/user-redirect/git-pull")
    assert parse_qs(pull.query) == {
        "repo": ["https://github.com/jdoe/gpus-2026"],
        "branch": ["main"],
        "urlpath": ["lab/tree/gpus-2026/computing-devices.ipynb"],
    }
    without = handout(tmp_path, make_repository("jdoe/gpus-2026", "main"))
    assert "[Your JupyterHub](https://nbgitpuller.readthedocs.io/en/latest/link.html?" in without


def test_no_release_is_an_error_in_one_line(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with refused("no release; write one with 'make release' first"):
        handout(tmp_path, CLASS)
