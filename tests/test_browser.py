"""The site in a browser: it asks nobody else, nothing fails, formulas can be seen."""

import functools
import http.server
import os
import shutil
import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

from book.tools.chapters import toc_documents

QUIET = (  # Chromium itself asks other hosts unless it is told not to
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        reason = "no Chromium on this machine; on Debian, 'apt-get install chromium'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=QUIET)
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
def opened(browser, folder, name, **options):
    """A page of the site in `folder`, and the list of what went wrong on it."""
    with served(folder) as host:
        context = browser.new_context(**options)
        page, faults = context.new_page(), []

        def note(request):
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


def unseen_formulas(page):
    """The formulas of the page that take no room on it, as TeX."""
    drawings = page.locator(".formula svg").all()
    boxes = [(drawing.get_attribute("aria-label"), drawing.bounding_box()) for drawing in drawings]
    return [tex for tex, box in boxes if not box or not box["width"] or not box["height"]]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page_is_whole_and_asks_nobody_else(browser, site, scheme, width):
    options = {"viewport": {"width": width, "height": 740}, "color_scheme": scheme}
    found, formulas = {}, 0
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name == "index.html":  # only leads to another page
            continue
        with opened(browser, site, name, **options) as (page, faults):
            faults += [f"formula not seen: {tex}" for tex in unseen_formulas(page)]
            faults += ["formula not drawn"] * page.locator(".math").count()
            if page.evaluate("document.documentElement.scrollWidth") > width:
                faults.append("wider than the window")
            formulas += page.locator(".formula svg").count()
            found[name] = faults
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert formulas


def test_the_index_leads_to_the_first_page(browser, site):
    with opened(browser, site, "index.html") as (page, faults):
        page.wait_for_url(f"**/{toc_documents()[0]}.html", wait_until="networkidle")
        assert faults == []


@pytest.mark.parametrize(
    ("addition", "fault"),
    [
        ('<script src="https://cdn.example.org/a.js"></script>', "asks another host"),
        ("<script>fetch('https://api.example.org/')</script>", "asks another host"),
        ('<img src="missing.png">', "answers 404"),
        ("<script>console.error('a fault')</script>", "console: a fault"),
        ("<script>undefined_function()</script>", "script:"),
    ],
)
def test_a_doctored_page_is_noticed(browser, tmp_path, addition, fault):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>Page</title>{addition}")
    with opened(browser, tmp_path, "page.html") as (_, faults):
        assert any(found.startswith(fault) for found in faults)


def test_a_formula_that_is_hidden_is_noticed(browser, tmp_path):
    formula = '<span class="formula"><svg role="img" aria-label="n" width="9" height="9"/></span>'
    (tmp_path / "seen.html").write_text(formula)
    (tmp_path / "hidden.html").write_text(f'<div style="display: none">{formula}</div>')
    with opened(browser, tmp_path, "seen.html") as (page, _):
        assert unseen_formulas(page) == []
    with opened(browser, tmp_path, "hidden.html") as (page, _):
        assert unseen_formulas(page) == ["n"]
