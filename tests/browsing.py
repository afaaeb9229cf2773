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

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import sync_playwright

INSTALL = "on Debian, 'apt-get install chromium libatomic1'"  # the second for Node.js from 25 on
WIDE, NARROW = 1280, 360

QUIET = (  # Chromium itself asks other hosts unless it is asked not to
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()


def chromium_program():
    names = "chromium", "chromium-browser", "google-chrome"
    return next(filter(None, map(shutil.which, names)), None)


@contextmanager
def chromium(**options):
    with sync_playwright() as playwright:
        program = chromium_program()
        browser = playwright.chromium.launch(executable_path=program, args=QUIET, **options)
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
            last = (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
            return f"browser: {name} does not start ({last}); {INSTALL}"
    return None


@contextmanager
def opened(browser, folder, name, asked=None, width=WIDE, height=740, uncovered=False, **options):
    """A page of the site in `folder` with all that it asks for, and the list of its faults.

    The address of every request is appended to `asked`. Where the page is `uncovered`, the
    reader has asked to see what answers its predictions.
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
        try:
            page.goto(host + name)
            page.evaluate("document.fonts.ready.then(() => null)")
            deadline = time.monotonic() + 30  # seconds, as Playwright waits for anything else
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


# Colours that change slowly would be weighed half-way.
STILL = "*, *::before, *::after { transition: none !important }"


def look(page, width=WIDE, scheme="light"):
    """Show the page in a window of this width, in this colour scheme."""
    page.add_style_tag(content=STILL)
    if page.viewport_size["width"] != width:
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(400)  # the theme's script waits 300 ms before it looks again
    page.emulate_media(color_scheme=scheme)


LAYOUT = """() => {
  const found = [], root = document.documentElement;
  const fault = (what, box) => found.push(`${what}: ${box.outerHTML.slice(0, 120)}`);
  const hides = side => /hidden|clip/.test(side);
  if (root.scrollWidth > root.clientWidth) found.push(`page: ${root.scrollWidth} wide`);
  for (const box of document.body.querySelectorAll("*")) {
    if (!box.checkVisibility()) continue;
    const style = getComputedStyle(box);
    if (box.clientWidth > 1 && box.clientHeight > 1) {
      const wide = box.scrollWidth > box.clientWidth + 1 && hides(style.overflowX);
      const high = box.scrollHeight > box.clientHeight + 1 && hides(style.overflowY);
      if ((wide || high) && box.innerText?.trim()) fault("cut off", box);
    }
    const words = [...box.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (words && !/^"Book (Text|Code)"/.test(style.fontFamily)) fault(style.fontFamily, box);
  }
  for (const image of document.images) {
    const [wide, high] = ["width", "height"].map(side => +image.getAttribute(side));
    const { width, height } = image.getBoundingClientRect();
    const own = image.naturalWidth / image.naturalHeight;
    if (image.complete && Math.abs(wide / high / own - 1) > 0.02)
      fault(`size ${wide} x ${high}, not its own`, image);
    if (height && Math.abs(width / height / (wide / high) - 1) > 0.05)
      fault(`out of shape, ${width} x ${height}`, image);
  }
  for (const drawing of document.querySelectorAll(".formula svg")) {
    const { width, height } = drawing.getBoundingClientRect();
    if (!(width && height) && !drawing.closest("details:not([open])"))
      fault("takes no room", drawing);
  }
  document.querySelectorAll(".math").forEach(box => fault("not drawn", box));
  return found;
}"""


def layout_faults(page):
    """What is wider than the window, cut off, out of shape, not drawn, or in another font."""
    return page.evaluate(LAYOUT)


def shift_faults(page):
    """Whether what was already shown moved while the page loaded (0.1 is held to be too much)."""
    shift = page.evaluate(
        """() => new Promise(resolve => {
          let sum = 0;
          new PerformanceObserver(list => list.getEntries().forEach(one => { sum += one.value; }))
            .observe({type: "layout-shift", buffered: true});
          setTimeout(() => resolve(sum), 500);
        })"""
    )
    return [f"moves by {shift:.2f}"] if shift > 0.02 else []


def unmarked(page):
    """The controls of the page that look the same with and without the keyboard's focus."""
    page.add_style_tag(content=STILL)
    found, seen = [], 0
    while True:
        page.keyboard.press("Tab")
        control = page.evaluate(
            """() => {
              const box = document.activeElement;
              if (box === document.body || box.dataset.seen) return null;
              box.dataset.seen = "yes";
              const look = () => {
                const { outline, boxShadow, backgroundColor } = getComputedStyle(box);
                return outline + boxShadow + backgroundColor;
              };
              const marked = look();
              box.blur();
              const plain = look();
              box.focus();
              return [marked !== plain, box.outerHTML.slice(0, 120)];
            }"""
        )
        if control is None:
            assert seen
            return found
        seen += 1
        if not control[0]:
            found.append(f"unmarked: {control[1]}")


# Axe takes its time for every element, and longest for what is behind each piece of text, where
# a page has thousands of names in code: three of each look stand for all. Parts of pictures, and
# rows of long tables that are like those before them, are taken out.
ALIKE = """() => {
  const times = {};
  for (const name of document.querySelectorAll("pre span[class]:not(:has(*))")) {
    const { color, fontWeight, backgroundColor } = getComputedStyle(name);
    const block = name.closest("pre").parentElement.className;
    const look = [name.className, color, fontWeight, backgroundColor, block].join();
    times[look] = (times[look] ?? 0) + 1;
    if (times[look] > 3 && name.attributes.length === 1) name.replaceWith(name.textContent);
  }
  document.querySelectorAll("pre").forEach(code => code.normalize());
  document.querySelectorAll("svg[role=img] :is(path, rect)").forEach(part => part.remove());
  for (const row of document.querySelectorAll("tbody tr:nth-child(n + 9)"))
    if (!row.querySelector("[id], a, button")) row.remove();
}"""


def violations(page, colours=True):
    """What axe-core finds: its default rules and one more, that labels hold the text in sight.

    It spoils the page. Without `colours` it does not weigh them, which takes most of its time.
    """
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    page.evaluate(ALIKE)
    more = {"label-content-name-mismatch": {"enabled": True}}
    more |= {name: {"enabled": colours} for name in ("color-contrast", "link-in-text-block")}
    options = {"resultTypes": ["violations"], "rules": more, "preload": False}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]
