"""Opening pages of a site in a browser, with a note of everything that goes wrong."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

QUIET = (  # Chromium itself asks other hosts unless it is asked not to
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
INSTALL = "on Debian, 'apt-get install chromium libatomic1'"  # the second for Node.js from 25 on


@functools.cache
def missing():
    """What a browser lacks on this machine, in one line that says what to install; None if nothing.

    Both programs are started once by themselves: Playwright itself reports a driver that
    does not start as a closed connection.
    """
    program = chromium_program()
    if program is None:
        return f"browser: no Chromium on this machine; {INSTALL}"
    for name, command in {
        "Playwright's driver": [sys.executable, "-m", "playwright", "--version"],
        "Chromium": [program, "--version"],
    }.items():
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
            return f"browser: {name} does not start ({last}); {INSTALL}"
    return None


def chromium_program():
    """Where the system's Chromium is; None if it has none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium():
    """The system's Chromium, driven by Playwright."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_program(), args=QUIET)
        yield browser
        browser.close()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and writes no line for each."""

    def log_message(self, *arguments):
        pass


@contextmanager
def served(folder):
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


@contextmanager
def opened(browser, folder, name, asked=None, **options):
    """A page of the site in `folder`, and the list of what went wrong on it.

    The address of every request is appended to `asked`, where it is given.
    """
    with served(folder) as host:
        context = browser.new_context(**options)
        page, faults = context.new_page(), []

        def note(request):
            if asked is not None:
                asked.append(request.url)
            if not request.url.startswith((host, "data:", "blob:")):
                faults.append(f"asks another host: {request.url}")

        # No request leaves this machine, even of a page that is wrong.
        context.route(lambda url: not url.startswith(host), lambda route: route.abort())
        page.on("request", note)
        page.on("requestfailed", lambda request: faults.append(f"fails: {request.url}"))
        page.on(
            "response",
            lambda answer: answer.ok or faults.append(f"answers {answer.status}: {answer.url}"),
        )
        page.on(
            "console",
            lambda message: message.type == "error" and faults.append(f"console: {message.text}"),
        )
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.goto(host + name, wait_until="networkidle")
        try:
            yield page, faults
        finally:
            context.close()
