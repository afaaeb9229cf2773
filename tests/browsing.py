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
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()
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
    driver = [sys.executable, "-m", "playwright"]
    for name, command in {"Playwright's driver": driver, "Chromium": [program]}.items():
        run = subprocess.run([*command, "--version"], capture_output=True, text=True)
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
def opened(browser, folder, name, asked=None, width=1280, height=740, **options):
    """A page of the site in `folder`, and the list of what went wrong on it.

    The address of every request is appended to `asked`, where it is given.
    """
    asked = [] if asked is None else asked
    with served(folder) as host:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        page, faults = context.new_page(), []

        def note(request):
            asked.append(request.url)
            if not request.url.startswith((host, "data:", "blob:")):
                faults.append(f"asks another host: {request.url}")

        # No request leaves this machine, even of a page that is wrong.
        context.route(lambda url: not url.startswith(host), lambda route: route.abort())
        page.on("request", note)
        page.on("requestfailed", lambda request: faults.append(f"fails: {request.url}"))
        page.on("response", lambda got: got.ok or faults.append(f"answers {got.status}: {got.url}"))
        page.on("console", lambda m: m.type == "error" and faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.goto(host + name, wait_until="networkidle")
        try:
            yield page, faults
        finally:
            context.close()


@contextmanager
def opened_text(browser, folder, text, **options):
    """A page of its own, written to `folder`; else as above."""
    (folder / "page.html").write_text(text, encoding="utf-8")
    with opened(browser, folder, "page.html", **options) as page_and_faults:
        yield page_and_faults


def doctor(site, place, old, new):
    """Replace a text in the files of `site` that match `place`, where it must be."""
    for path in site.glob(place):
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
