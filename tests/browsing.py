"""Opening pages of a site in a browser, and what may be wrong with any page."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

INSTALL = "on Debian, 'apt-get install chromium libatomic1'"  # the second for Node.js from 25 on
WIDE, NARROW = 1280, 360
SCRIPTS = Path(__file__).with_name("scripts")

QUIET = (  # Chromium itself asks other hosts unless it is asked not to
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()


@functools.cache
def script(name):
    """What a page is asked, in its own language."""
    return (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")


def chromium_program():
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium(**options):
    with sync_playwright() as playwright:
        program = chromium_program()
        browser = playwright.chromium.launch(
            executable_path=program, args=QUIET, **options
        )
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


# What book/static/predictions.js keeps when its switch is pressed.
SHOW_EVERYTHING = """sessionStorage.setItem(
  "predictions", JSON.stringify({ [location.pathname]: true }))"""


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
            last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[
                -1
            ]
            return f"browser: {name} does not start ({last}); {INSTALL}"
    return None


@contextmanager
def opened(
    browser,
    folder,
    name,
    asked=None,
    width=WIDE,
    height=740,
    uncovered=False,
    **options,
):
    """A page of the site in `folder` with all that it asks for, and the list of its faults.

    The address of every request is appended to `asked`. Where the page is `uncovered`, the
    reader has asked to see what answers its predictions.
    """
    asked = [] if asked is None else asked
    with served(folder) as host:
        context = browser.new_context(
            viewport={"width": width, "height": height}, **options
        )
        page, faults, waiting = context.new_page(), [], set()

        def note(request):
            asked.append(request.url)
            waiting.add(request)
            if not request.url.startswith((host, "data:", "blob:")):
                faults.append(f"asks another host: {request.url}")

        # No request leaves this machine, even of a page that is wrong.
        context.route(lambda url: not url.startswith(host), lambda route: route.abort())
        page.on("request", note)
        page.on("requestfailed", lambda request: faults.append(f"fails: {request.url}"))
        for end in ("requestfinished", "requestfailed"):
            page.on(end, lambda request: waiting.discard(request))
        page.on(
            "response",
            lambda got: got.ok or faults.append(f"answers {got.status}: {got.url}"),
        )
        page.on(
            "console",
            lambda m: m.type == "error" and faults.append(f"console: {m.text}"),
        )
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        if uncovered:
            context.add_init_script(SHOW_EVERYTHING)
        try:
            page.goto(host + name)
            page.evaluate("document.fonts.ready.then(() => null)")
            deadline = (
                time.monotonic() + 30
            )  # seconds, as Playwright waits for anything else
            while waiting:
                assert time.monotonic() < deadline, [request.url for request in waiting]
                page.wait_for_timeout(10)
            yield page, faults
        finally:
            context.close()


def finds_only(fonts, folder):
    """The environment of a browser that finds these fonts alone, by fontconfig (on Linux)."""
    settings = folder / "fonts.conf"
    cache = f"<cachedir>{folder}/cache</cachedir>"
    settings.write_text(f"<fontconfig><dir>{fonts}</dir>{cache}</fontconfig>")
    return os.environ | {"FONTCONFIG_FILE": str(settings)}
