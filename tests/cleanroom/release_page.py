"""The page of the simulator's release, served on this machine under its own address.

Set-up cells install the simulator from there, and run here as they are: pip is told of a proxy
for that host alone, and to take its certificate on trust. All else comes from where it is. The
page is as GitHub's: a list of links to the files of the release.
"""

import functools
import ssl
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from helpers import ROOT

from tools.book.repository import read_repository
from tools.book.setup_cells import release_page, simulator_version, simulator_wheel

RELEASE = read_repository(ROOT), simulator_version(ROOT)
LIST = urlsplit(release_page(*RELEASE))
WHEEL = urlsplit(simulator_wheel(*RELEASE))
LINK = f'<ul><li><a href="{WHEEL.path}">{Path(WHEEL.path).name}</a></li></ul>'
CERTIFICATE = "req -x509 -newkey rsa:2048 -nodes -days 1 -keyout key.pem -out page.pem"


class Page(BaseHTTPRequestHandler):
    """Answers as a proxy that leads to the host of the release, and as that host."""

    protocol_version = "HTTP/1.1"
    wheel: bytes
    context: ssl.SSLContext

    def do_CONNECT(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.request = self.context.wrap_socket(self.connection, server_side=True)
        # What follows is read from and written to the encrypted connection. It would end
        # here, as Python asks a proxy in HTTP 1.0.
        self.setup()
        self.close_connection = False

    def do_GET(self) -> None:
        answers = {
            LIST.path: ("text/html; charset=utf-8", LINK.encode()),
            WHEEL.path: ("application/octet-stream", self.wheel),
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


@functools.cache
def pip_variables() -> dict[str, str]:
    """Serve the wheel of this folder's simulator; return what lets pip find it there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
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
        Page.wheel = (folder / Path(WHEEL.path).name).read_bytes()

        certify = ["openssl", *CERTIFICATE.split(), "-subj", f"/CN={WHEEL.netloc}"]
        subprocess.run(certify, cwd=folder, check=True, capture_output=True)
        Page.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        Page.context.load_cert_chain(folder / "page.pem", folder / "key.pem")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {
        f"https://{WHEEL.netloc}_proxy": f"http://127.0.0.1:{server.server_port}",
        "PIP_TRUSTED_HOST": WHEEL.netloc,
    }
