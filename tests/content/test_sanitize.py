"""What sanitize.cfg takes out of the comparison, and what it must leave in."""

import re

import pytest
from helpers import RECORDED, ROOT, outputs_path, read
from nbval.plugin import get_sanitize_patterns

PATTERNS = get_sanitize_patterns((ROOT / "tests" / "sanitize.cfg").read_text())
DRAWING = '<svg width="7pt">\n <g>\n  <!-- {} -->\n  <path d="M 1 2 L 3 4"/>\n </g>\n</svg>\n'
PEAKS = DRAWING.format("Peak figures from data sheets")


def sanitized(words):
    for pattern, replacement in PATTERNS:
        words = re.sub(pattern, replacement, words)
    return words


def test_every_rule_of_the_file_is_read():
    # nbval drops a rule in silence where `replace` does not follow `regex` at once
    assert len(PATTERNS) == (ROOT / "tests" / "sanitize.cfg").read_text().count("\n[")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("<Box object at 0x7f3a5c0de1f0>", "<Box object at ADDRESS>"),
        ("one by one: measured 0.001450 s, 3", "one by one: measured TIME, 3"),
        ("('a: measured 12.5 s', 'b: measured 3 s')", "('a: measured TIME', 'b: measured TIME')"),
        (DRAWING.format("Loss, measured"), "MEASURED PLOT\n"),
        (f"{PEAKS}|{DRAWING.format('measured')}", f"{PEAKS}|MEASURED PLOT\n"),
        ("0, NVIDIA H100 80GB HBM3, 81559 MiB\n1, Tesla T4, 15360 MiB\n", "0, CARD\n1, CARD\n"),
    ],
)
def test_rule_swallows(words, left):
    assert sanitized(words) == left


@pytest.mark.parametrize(
    "words",
    [
        "device=cuda:0",
        "0, Simulated GPU (T4), 16384 MiB",
        "No NVIDIA GPU that PyTorch can use here.",
        "NVIDIA H100, 3, 81559 MiB free",
        "device(type='cuda', index=1)",
        "tensor([[1., 1., 1.]], device='cuda:1')",
        "0x7f3a5c0de1f0",
        "'loss': 0.0123",
        "in 0.5 s",
        "measured 0.5 GB/s",
        "measured 0.5 ms",
        "measured 0.5 seconds",
        "measured: 0.5 s",
        "it was measured",
        PEAKS + "The next plot is measured.",
        '<svg><text>measured</text><path d="M 1 2"/></svg>',
    ],
)
def test_rule_leaves(words):
    assert sanitized(words) == words


@pytest.mark.parametrize("runner", sorted({runner for runner, _ in RECORDED}))
def test_plot_of_the_data_sheets_is_compared(runner):
    outputs = read(outputs_path("computing-devices", runner))
    shown = [output.get("data", {}) for cell in outputs.cells for output in cell.outputs]
    plots = [data["image/svg+xml"] for data in shown if "image/svg+xml" in data]
    assert plots and [sanitized(plot) for plot in plots] == plots
