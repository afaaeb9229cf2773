"""The page of the simulator's release, served on this machine in the place of GitHub.

Setup cells install the simulator from there. Here they run with another host in its address; all
else comes from where it is. The page is as GitHub's: a list of links to the files of the release.
"""

import functools
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from helpers import ROOT

from tools.book.repository import HOST, read_repository
from tools.book.setup_cells import release_page, simulator_version, simulator_wheel

RELEASE = read_repository(ROOT), simulator_version(ROOT)
LIST = release_page(*RELEASE).removeprefix(HOST)
WHEEL = simulator_wheel(*RELEASE).removeprefix(HOST)
LINK = f'<ul><li><a href="/{WHEEL}">{Path(WHEEL).name}</a></li></ul>'


class Page(BaseHTTPRequestHandler):
    wheel: bytes

    def do_GET(self) -> None:
        answers = {
            f"/{LIST}": ("text/html; charset=utf-8", LINK.encode()),
            f"/{WHEEL}": ("application/octet-stream", self.wheel),
        }
        if self.path not in answers:
            self.send_error(404)
            return
        kind, content = answers[self.path]
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        # pip's cache outlives a run of the tests, and the simulator changes.
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Keep the log of pytest free of requests."""


def from_here(source: str) -> str:
    """Return a setup cell that looks for the release on this machine."""
    assert HOST in source
    return source.replace(HOST, serve())


@functools.cache
def serve() -> str:
    """Serve the page with the wheel of this folder's simulator; return its host."""
    with tempfile.TemporaryDirectory() as folder:
        build = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-t",
            "wheel",
            "-d",
            folder,
        ]
        subprocess.run(build, cwd=ROOT / "cudasim", check=True, capture_output=True)
        Page.wheel = (Path(folder) / Path(WHEEL).name).read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"
