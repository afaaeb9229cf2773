"""A tiny book with all that reacts to a reader: predictions, tabs, timelines.

Its first chapter asks for predictions; its second shows timelines, and a card next to two
runners. Its third is there in two frameworks.
"""

import shutil

from helpers import ROOT, code, copy_code, copy_kernel, prose, write
from making import H100, display, dress, keep, make_book, text
from nbformat.v4 import new_output

from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from tools.book.grammar import framed_answer
from tools.site.site import build_site

CHOICES = "- on the `cpu`\n- on the first GPU\n- nowhere yet"
LONG_LINE = """\
def told(numbers):
    for number in numbers:
        print('a line that no telephone shows whole:', number, type(number))
"""
ASKING = [
    prose("title", "# First\n\nA chapter that asks."),
    code("imports", "import torch", ["hide-cell"]),
    code("make", "X = 1"),
    prose("predict-place", f"**Predict.** Where is `X`?\n\n{CHOICES}"),
    code("place", "X.device", ["predicted"]),
    code("place-holds", "# @title Checks\nassert X.device", ["checks"]),
    prose("answer-place", framed_answer("**The second.** It was made there.")),
    prose("after", "Text below tells it, too."),
    code("again", "X + 1"),
    prose("more", "## More\n\nNow without choices."),
    prose("predict-sum", "**Predict.** What is 2 + 2?"),
    code("sum", "print('so:')\n2 + 2", ["predicted"]),
    prose("answer-sum", framed_answer("It is 4, as on paper.")),
    prose("deeper", "## Deeper: sums\n\nOff the path."),
    prose("below", "### Below\n\nStill off it, and [here](#below)."),
    code("add", "def add(*parts):\n    return sum(parts)", ["hide-cell"]),
    code("added-holds", "# @title Checks\nassert add(1, 2) == 3", ["checks"]),
    prose("end", "## End\n\nOn it again."),
    code("long", LONG_LINE),
]
SHOWING = [
    prose("title", "# Second\n\nTimelines, and a card."),
    code("show", "clock"),
    code("where", "X.device"),
]
IN_TORCH = [
    prose("title", "# Third\n\nA chapter in two frameworks."),
    prose("common", "A commonplace."),
    code("where", "torch.ones(1).device"),
    prose("note-pytorch", "So says torch."),
    prose("trainer-pytorch", "## Deeper: a trainer\n\nOf torch alone."),
    prose("end", "## End\n\nOf both."),
    code("last", "'the same'"),
]
IN_JAX = [
    prose("title", "# Third\n\nA chapter in two frameworks."),
    prose("common", "A commonplace."),
    code("where", "jnp.ones(1).device"),
    prose("note-jax", "So says jax."),
    prose("end", "## End\n\nOf both."),
    code("last", "'the same'"),
]
STEPS = 30
STEP = 100_000  # nanoseconds
PLOT = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><!-- %s --></svg>'
)


def timeline(source):
    """Return the output of a cell that shows a timeline of two GPUs."""
    spans = [Span("cuda:1 stream 0", "addmm", 0, 2_000_000, "kernel")]
    for at in range(0, STEPS * STEP, STEP):
        spans += [
            Span("Python", "mm", at, at + 9_000, "operation"),
            Span("Python", "item", at + 9_000, at + 80_000, "wait"),
            Span("cuda:0 stream 0", "mm", at + 9_000, at + 70_000, "kernel"),
            Span("cuda:0 copies out", "copy", at + 70_000, at + 71_000, "copy", 4),
        ]
    timeline = Timeline()
    timeline.fill(spans, source, ["the first 3 spans were dropped: there are too many"])
    return new_output("display_data", data=timeline._repr_mimebundle_())


def make_tiny_book(root):
    """Write the book, record what its cells print, and build its site."""
    make_book(root)
    for folder in ("cudasim/src", "cudasim/facts", "kernels/jax"):
        copy_code(root, folder)
    for runner in ("simulated", "gpu", "jax-simulated"):
        copy_kernel(root, runner)
    shutil.copy(ROOT / "kernels" / "framework.py", root / "kernels")
    write(root, "first", *ASKING)
    write(root, "second", *SHOWING)
    write(root, "third", *IN_TORCH)
    write(root, "third-jax", *IN_JAX)
    with (root / "_toc.yml").open("a") as toc:
        toc.write("  - file: notebooks/third\n")
    dress(root)

    keep_on_runner(root, "cpu", "here: cpu", "measured on a processor")
    keep_on_runner(root, "simulated", "there: cuda", "modelled for a T4")
    keep_on_card(root)
    keep_third(root, "third", "cpu", "torch: cpu")
    keep_third(root, "third", "simulated", "torch: cuda")
    keep_third(root, "third-jax", "jax", "jax: cpu")
    keep_third(root, "third-jax", "jax-simulated", "jax: gpu")
    build_site(root)


def keep_on_runner(root, runner, place, source):
    """Record the first two chapters; `source` is that of the timeline."""
    first = {
        "place": [display(place)],
        "sum": [text("so:\n"), display("4")],
    }
    keep(root, "first", runner, first)
    plot = display(PLOT % place, "image/svg+xml")
    keep(root, "second", runner, {"show": [timeline(source)], "where": [plot]})


def keep_on_card(root):
    printed = {
        "show": [text("none\n")],
        "where": [display("on a real card")],
    }
    keep(root, "second", "h100", printed, **H100)


def keep_third(root, name, runner, place):
    printed = {
        "where": [display(place)],
        "last": [display("'same'")],
    }
    keep(root, name, runner, printed, versions={"torch": "2.0", "jax": "0.1"})
