"""Links to a repository that holds the student edition alone."""

import json
import re
from urllib.parse import parse_qs, urlparse

from helpers import refused

from tools.book.repository import make_repository
from tools.grade.exchange.handout import handout

CLASS = make_repository("jdoe/gpus-2026", "main", "https://hub.example.org")


def test_a_line_for_each_notebook(tmp_path):
    with refused("no release; write one with 'make release' first"):
        handout(tmp_path, CLASS)
    chapters = [{"name": name, "title": name.title()} for name in ("devices", "puzzles")]
    (tmp_path / "manifest.json").write_text(json.dumps({"chapters": chapters}))
    first, second = handout(tmp_path, CLASS).splitlines()
    links = dict(re.findall(r"\[(.+?)\]\((\S+?)\)", first))
    assert first.startswith("- Devices: [") and second.startswith("- Puzzles: [")
    assert list(links) == ["Google Colab", "SageMaker Studio Lab", "JupyterHub", "Download"]
    assert links["Google Colab"].endswith("/github/jdoe/gpus-2026/blob/main/devices.ipynb")
    query = parse_qs(urlparse(links["JupyterHub"]).query)
    assert query["urlpath"] == ["lab/tree/gpus-2026/devices.ipynb"]
    without = handout(tmp_path, make_repository("jdoe/gpus-2026", "main"))
    assert "[Your JupyterHub](https://nbgitpuller.readthedocs.io/en/latest/link.html?" in without
