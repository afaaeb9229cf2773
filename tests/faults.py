"""What may be wrong with any page that is open in a browser."""

from axe_playwright_python.base import AXE_SCRIPT
from browsing import WIDE, script

# Colours that change slowly would be weighed half-way.
STILL = "*, *::before, *::after { transition: none !important }"


def look(page, width=WIDE, scheme="light"):
    page.add_style_tag(content=STILL)
    if page.viewport_size["width"] != width:
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_timeout(
            400
        )  # the theme's script waits 300 ms before it looks again
    page.emulate_media(color_scheme=scheme)


def layout_faults(page):
    """What is wider than the window, cut off, out of shape, not drawn, or in another font."""
    return page.evaluate(script("layout"))


def shift_faults(page):
    """Whether what was already shown moved while the page loaded (0.1 is held to be too much)."""
    shift = page.evaluate(script("shift"))
    return [f"moves by {shift:.2f}"] if shift > 0.02 else []


def unmarked(page):
    """The controls of the page that look the same with and without the keyboard's focus."""
    page.add_style_tag(content=STILL)
    found, seen = [], 0
    while True:
        page.keyboard.press("Tab")
        control = page.evaluate(script("focus"))
        if control is None:
            assert seen
            return found
        seen += 1
        if not control[0]:
            found.append(f"unmarked: {control[1]}")


# Axe takes its time for every element, and longest for what is behind each piece of text, where
# a page has thousands of names in code: three of each look stand for all. Parts of pictures, and
# rows of long tables that are like those before them, are taken out.


def violations(page, colours=True):
    """What axe-core finds: its default rules and one more, that labels hold the text in sight.

    It spoils the page. Without `colours` it does not weigh them, which takes most of its time.
    """
    page.evaluate(f"window.axe || (() => {{ {AXE_SCRIPT} }})()")
    page.evaluate(script("alike"))
    more = {"label-content-name-mismatch": {"enabled": True}}
    more |= {
        name: {"enabled": colours} for name in ("color-contrast", "link-in-text-block")
    }
    options = {"resultTypes": ["violations"], "rules": more, "preload": False}
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{rule['id']}: {node['html'][:120]}"
        for rule in found
        for node in rule["nodes"]
    ]
