"""The system's Chromium, and pages of a folder served to it on this machine."""

import functools
import gzip
import http.server
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, sync_playwright

QUIET = (  # Chromium itself asks other hosts unless it is asked not to
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()


def chromium_program() -> str | None:
    """Where the system's Chromium is; None if it has none."""
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium(**options: Any) -> Iterator[Browser]:
    """The system's Chromium, driven by Playwright."""
    with sync_playwright() as playwright:
        program = chromium_program()
        browser = playwright.chromium.launch(executable_path=program, args=QUIET, **options)
        yield browser
        browser.close()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no line for each."""

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address under which `folder` is served, on a free port of this machine."""
    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def weights(site: Path, asked: Iterable[str]) -> dict[str, int]:
    """Compressed bytes of every file of `site` that was asked for, by its path there."""
    paths = {unquote(urlsplit(url).path).lstrip("/") for url in asked}
    files = {path: site / path for path in paths if (site / path).is_file()}
    return {path: len(gzip.compress(file.read_bytes())) for path, file in files.items()}
