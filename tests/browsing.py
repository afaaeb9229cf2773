"""Opening pages of a site in a browser, with a note of everything that goes wrong."""

import functools
import subprocess
import sys
import time
from contextlib import contextmanager

from axe_playwright_python.base import AXE_SCRIPT

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
def opened(
    browser,
    folder,
    name,
    asked=None,
    width=1280,
    height=740,
    uncovered=False,
    until="load",
    **options,
):
    """A page of the site in `folder`, and the list of what went wrong on it.

    The address of every request is appended to `asked`, where it is given. Where it is
    `uncovered`, the reader has asked to see what answers its predictions. Scripts, fonts and
    all that was asked for are there; "networkidle" waits for what may still be asked late.
    """
    asked = [] if asked is None else asked
    with served(folder) as host:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
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
        page.on("response", lambda got: got.ok or faults.append(f"answers {got.status}: {got.url}"))
        page.on("console", lambda m: m.type == "error" and faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        if uncovered:
            context.add_init_script(SHOW_EVERYTHING)
        page.goto(host + name, wait_until=until)
        if until == "load":  # the half second of "networkidle" is most of what an opening takes
            page.evaluate("document.fonts.ready.then(() => null)")
            deadline = time.monotonic() + 30  # seconds, as Playwright waits for anything else
            while waiting:
                assert time.monotonic() < deadline, [request.url for request in waiting]
                page.wait_for_timeout(10)
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


# Axe looks for what is behind each piece of text, which takes nearly all of its time where a
# page has thousands of names in code. Text of the same look on the same grounds, in the same
# classes, is of the same contrast: the first, the middle and the last in sight stand for all.
ALIKE = """() => {
  const grounds = new Map([[null, 0]]), number = new Map(), alike = {};
  const short = text => number.get(text) ?? number.set(text, number.size + 1).get(text);
  const look = box => {
    const { color, fontSize, fontWeight, textShadow, position } = getComputedStyle(box);
    return [color, fontSize, fontWeight, textShadow, position].join();
  };
  const ground = box => {
    if (!grounds.has(box)) {
      const { backgroundColor, backgroundImage, opacity, filter, position } = getComputedStyle(box);
      const own = [box.tagName, box.getAttribute("class"), box.getAttribute("style")];
      own.push(backgroundColor, backgroundImage, opacity, filter, position);
      grounds.set(box, short([ground(box.parentElement), ...own].join("|")));
    }
    return grounds.get(box);
  };
  for (const box of document.querySelectorAll("body, body *")) {
    box.removeAttribute("data-contrast");
    const words = [...box.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if ((words || box.matches("input, select, textarea")) && box.checkVisibility())
      (alike[`${ground(box)} ${look(box)}`] ??= []).push(box);
  }
  for (const all of Object.values(alike))
    for (const i of [0, all.length >> 1, all.length - 1]) all[i].dataset.contrast = "";
  axe.configure({ rules: [{ id: "color-contrast", selector: "[data-contrast]" }] });
}"""


def violations(page, contrast=True):
    """What axe-core finds: its default rules and one more, that labels hold the text in sight.

    Without `contrast` it does not weigh colours, which takes most of its time.
    """
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    page.evaluate(ALIKE)
    more = {"label-content-name-mismatch": {"enabled": True}}
    more["color-contrast"] = {"enabled": contrast}
    options = {"resultTypes": ["violations"], "rules": more, "preload": False}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]


def doctor(site, place, old, new):
    """Replace a text in the files of `site` that match `place`, where it must be."""
    for path in site.glob(place):
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
