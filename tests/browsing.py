"""Opening pages of a site in a browser, with a note of everything that goes wrong."""

import functools
import subprocess
import sys
from contextlib import contextmanager

from tools.browsing import chromium_program, served

INSTALL = "on Debian, 'apt-get install chromium libatomic1'"  # the second for Node.js from 25 on


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
            last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
            return f"browser: {name} does not start ({last}); {INSTALL}"
    return None


@contextmanager
def opened(browser, folder, name, asked=None, width=1280, height=740, uncovered=False, **options):
    """A page of the site in `folder`, and the list of what went wrong on it.

    The address of every request is appended to `asked`, where it is given. Where it is
    `uncovered`, the reader has asked to see what answers its predictions.
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
        if uncovered:
            context.add_init_script(SHOW_EVERYTHING)
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
