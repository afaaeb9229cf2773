"""Open pages of a site in a browser that asks nobody else."""

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

# Node.js needs the second from version 25 on.
INSTALL = "on Debian, 'apt-get install chromium libatomic1'"
WIDE, NARROW = 1280, 360
LOADING_LIMIT = 30  # seconds, as Playwright waits for anything else
SCRIPTS = Path(__file__).with_name("scripts")

# Chromium itself asks other hosts unless it is told not to.
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()


@functools.cache
def script(name):
    """Return a function in JavaScript, which a page is to evaluate."""
    return (SCRIPTS / f"{name}.js").read_text(encoding="utf-8")


def chromium_program():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        program = shutil.which(name)
        if program:
            return program
    return None


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
    """Serve files, and write no line for each."""

    def log_message(self, *arguments):
        pass


@contextmanager
def served(folder):
    """Yield the address under which `folder` is served, on a free port of this machine."""
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
SHOW_ANSWERS = """sessionStorage.setItem(
  "predictions", JSON.stringify({ [location.pathname]: true }))"""


@functools.cache
def missing():
    """Return what a browser lacks on this machine, in one line with advice, or None.

    Both programs are started once by themselves: Playwright itself reports a driver that
    does not start as a closed connection.
    """
    program = chromium_program()
    if program is None:
        return f"browser: no Chromium on this machine; {INSTALL}"
    driver = [sys.executable, "-m", "playwright"]
    commands = {"Playwright's driver": driver, "Chromium": [program]}
    for name, command in commands.items():
        run = subprocess.run([*command, "--version"], capture_output=True, text=True)
        if run.returncode:
            reason = f"exit code {run.returncode}"
            if run.stderr.strip():
                reason = run.stderr.strip().splitlines()[-1]
            return f"browser: {name} does not start ({reason}); {INSTALL}"
    return None


class Traffic:
    """What a page requests, and what goes wrong while it is open."""

    def __init__(self, page, host, requests):
        self.faults = []
        self._host = host
        self._requests = requests
        self._pending = set()
        page.on("request", self._begin)
        page.on("requestfinished", self._finish)
        page.on("requestfailed", self._fail)
        page.on("response", self._answer)
        page.on("console", self._log)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))

    def _begin(self, request):
        self._requests.append(request.url)
        self._pending.add(request)
        if not request.url.startswith((self._host, "data:", "blob:")):
            self.faults.append(f"asks another host: {request.url}")

    def _finish(self, request):
        self._pending.discard(request)

    def _fail(self, request):
        self._pending.discard(request)
        self.faults.append(f"fails: {request.url}")

    def _answer(self, response):
        if not response.ok:
            self.faults.append(f"answers {response.status}: {response.url}")

    def _log(self, message):
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def wait(self, page):
        """Wait until all that was requested has come."""
        deadline = time.monotonic() + LOADING_LIMIT
        while self._pending:
            pending = [request.url for request in self._pending]
            assert time.monotonic() < deadline, f"still loading: {pending}"
            page.wait_for_timeout(10)


@contextmanager
def opened(
    browser,
    folder,
    name,
    requests=None,
    width=WIDE,
    height=740,
    uncovered=False,
    **options,
):
    """Open a page of the site in `folder`; yield it and the list of its faults.

    The address of every request is appended to `requests`. Where the page is `uncovered`, the
    reader has asked to see what answers its predictions.
    """
    if requests is None:
        requests = []
    viewport = {"width": width, "height": height}
    with served(folder) as host:
        context = browser.new_context(viewport=viewport, **options)
        # No request leaves this machine, even of a page that is wrong.
        context.route(lambda url: not url.startswith(host), lambda route: route.abort())
        if uncovered:
            context.add_init_script(SHOW_ANSWERS)
        page = context.new_page()
        traffic = Traffic(page, host, requests)
        try:
            page.goto(host + name)
            page.evaluate("document.fonts.ready.then(() => null)")
            traffic.wait(page)
            yield page, traffic.faults
        finally:
            context.close()


def finds_only(fonts, folder):
    """Return the environment of a browser that finds only these fonts, by fontconfig."""
    settings = folder / "fonts.conf"
    cache = f"<cachedir>{folder}/cache</cachedir>"
    settings.write_text(f"<fontconfig><dir>{fonts}</dir>{cache}</fontconfig>")
    return os.environ | {"FONTCONFIG_FILE": str(settings)}
