"""A tiny book with all that reacts to a reader: predictions, tabs, timelines."""

import shutil

from helpers import ROOT, code, copy_code, copy_kernel, prose, write
from making import H100, display, dress, keep, make_book, text
from nbformat.v4 import new_output

from cudasim.clock.clock import Span
from cudasim.clock.timeline import Timeline
from tools.site.site import build_site

CHOICES = "- on the `cpu`\n- on the first GPU\n- nowhere yet"
ASKING = [
    prose("title", "# First\n\nA chapter that asks."),
    code("imports", "import torch", ["hide-cell"]),
    code("make", "X = 1"),
    prose("predict-place", f"**Predict.** Where is `X`?\n\n{CHOICES}"),
    code("place", "X.device", ["predicted"]),
    code("place-held", "assert X.device\nX", ["hide-cell"]),
    prose("answer-place", "**The second.** It was made there."),
    prose("more", "## More\n\nNow without choices."),
    prose("predict-sum", "**Predict.** What is 2 + 2?"),
    code("sum", "print('so:')\n2 + 2", ["predicted"]),
    prose("answer-sum", "It is 4, as on paper."),
    prose("deeper", "## Deeper: sums\n\nOff the path."),
    prose("below", "### Below\n\nStill off it, and [here](#below)."),
    code("add", "def add(*parts):\n    return sum(parts)", ["hide-cell"]),
    code("added", "assert add(1, 2) == 3", ["hide-cell"]),
    prose("end", "## End\n\nOn it again."),
]
SHOWING = [
    prose("title", "# Second\n\nTimelines, and a card."),
    code("show", "clock"),
    code("where", "X.device"),
]
THIRD = prose("title", "# Third\n\nA chapter in two frameworks.")
INTRO = [THIRD, prose("common", "A commonplace.")]
REST = [prose("end", "## End\n\nOf both."), code("last", "'the same'")]
IN_TORCH = [
    *(
        *INTRO,
        code("where", "torch.ones(1).device"),
        prose("note-pytorch", "So says torch."),
    ),
    *(prose("trainer-pytorch", "## Deeper: a trainer\n\nOf torch alone."), *REST),
]
IN_JAX = [
    *INTRO,
    code("where", "jnp.ones(1).device"),
    prose("note-jax", "So says jax."),
    *REST,
]
STEPS = 30
PLOT = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60"><!-- %s --></svg>'
)


def timeline(source):
    spans = []
    for at in range(0, STEPS * 100_000, 100_000):
        spans += [
            Span("Python", "mm", at, at + 9_000, "operation"),
            Span("Python", "item", at + 9_000, at + 80_000, "wait"),
            Span("cuda:0 stream 0", "mm", at + 9_000, at + 70_000, "kernel"),
            Span("cuda:0 copies out", "copy", at + 70_000, at + 71_000, "copy", 4),
        ]
    spans.append(Span("cuda:1 stream 0", "addmm", 0, 2_000_000, "kernel"))
    drawn = Timeline()
    drawn.fill(spans, source, ["the first 3 spans were dropped: there are too many"])
    return new_output("display_data", data=drawn._repr_mimebundle_())


def make_tiny_book(root):
    """Its first chapter asks; its second shows timelines, and a card beside two runners.

    Its third is there in two frameworks.
    """
    make_book(root)
    for folder in ("cudasim/src", "cudasim/facts"):
        copy_code(root, folder)
    for runner in ("simulated", "gpu"):
        copy_kernel(root, runner)
    write(root, "first", *ASKING)
    write(root, "second", *SHOWING)
    write(root, "third", *IN_TORCH)
    write(root, "third-jax", *IN_JAX)
    copy_kernel(root, "jax-simulated")
    copy_code(root, "kernels/jax")
    shutil.copy(ROOT / "kernels" / "framework.py", root / "kernels")
    with (root / "_toc.yml").open("a") as toc:
        toc.write("  - file: notebooks/third\n")
    dress(root)
    in_torch = {"cpu": "torch: cpu", "simulated": "torch: cuda"}
    in_jax = {"jax": "jax: cpu", "jax-simulated": "jax: gpu"}
    for runner, place in (in_torch | in_jax).items():
        name = "third-jax" if runner in in_jax else "third"
        printed = {
            "where": [display(text_plain=place)],
            "last": [display(text_plain="'same'")],
        }
        keep(root, name, runner, printed, versions={"torch": "2.0", "jax": "0.1"})
    own = {"cpu": ("here: cpu", "measured on a processor")}
    own["simulated"] = "there: cuda", "modelled for a T4"
    for runner, (place, source) in own.items():
        printed = {"place": [display(text_plain=place)]}
        printed["sum"] = [text("so:\n"), display(text_plain="4")]
        keep(root, "first", runner, printed)
        plot = display(**{"image/svg+xml": PLOT % place})
        keep(root, "second", runner, {"show": [timeline(source)], "where": [plot]})
    printed = {
        "show": [text("none\n")],
        "where": [display(text_plain="on a real card")],
    }
    keep(root, "second", "h100", printed, **H100)
    build_site(root)
