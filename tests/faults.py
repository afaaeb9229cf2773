"""What may be wrong with any page that is open in a browser."""

import functools
import gzip
from urllib.parse import unquote, urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from browsing import WIDE, script

# Colours that change slowly would be weighed half-way.
STILL = "*, *::before, *::after { transition: none !important }"
# The theme's script waits so long before it reacts to another width.
THEME_DELAY = 400  # milliseconds
HEAVIEST = 200  # KiB of a page and all that it asks for, gzipped


def look(page, width=WIDE, scheme="light"):
    """Show a page in a window of this width, light or dark."""
    page.add_style_tag(content=STILL)
    if page.viewport_size["width"] != width:
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(THEME_DELAY)
    page.emulate_media(color_scheme=scheme)


def layout_faults(page):
    """Return what is wider than the window, cut off, out of shape or in another font."""
    return page.evaluate(script("layout"))


def shift_faults(page):
    """Return whether what was already shown moved while the page loaded.

    A shift of 0.1 is commonly held to be too much; here 0.02 is.
    """
    shift = page.evaluate(script("shift"))
    if shift <= 0.02:
        return []
    return [f"moves by {shift:.2f}"]


@functools.cache
def compressed_size(path):
    return len(gzip.compress(path.read_bytes()))


def weight_faults(site, requests):
    """Return whether the files of `site` that a page requested weigh too much, gzipped."""
    paths = {unquote(urlsplit(url).path).lstrip("/") for url in requests}
    files = [site / path for path in paths if (site / path).is_file()]
    weight = sum(map(compressed_size, files)) / 1024
    if weight < HEAVIEST:
        return []
    return [f"weighs {weight:.0f} KiB"]


def unmarked_controls(page):
    """Return the controls that look the same with and without the keyboard's focus."""
    page.add_style_tag(content=STILL)
    unmarked = []
    count = 0
    while True:
        page.keyboard.press("Tab")
        focus = page.evaluate(script("focus"))
        if focus is None:
            break
        count += 1
        if not focus["isMarked"]:
            unmarked.append(f"unmarked: {focus['html']}")
    assert count > 0, "Tab reaches no control"
    return unmarked


def violations(page, colours=True):
    """Return what axe-core finds: by its default rules, and where labels hide their text.

    Axe takes its time for every element, and longest for what is behind each piece of text,
    where a page has thousands of names in code. Therefore three of each look stand for all;
    parts of pictures, and rows of long tables like those before them, are taken out. This
    spoils the page. Without `colours`, which take most of the time, they are not weighed.
    """
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    page.evaluate(script("alike"))
    rules = {
        "label-content-name-mismatch": {"enabled": True},
        "color-contrast": {"enabled": colours},
        "link-in-text-block": {"enabled": colours},
    }
    options = {"resultTypes": ["violations"], "rules": rules, "preload": False}
    report = page.evaluate("options => axe.run(options)", options)
    faults = []
    for rule in report["violations"]:
        for node in rule["nodes"]:
            faults.append(f"{rule['id']}: {node['html'][:120]}")
    return faults
