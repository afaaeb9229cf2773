"""What the files of rules take out of the comparison, and what they must leave in."""

import re

import pytest
from helpers import ROOT
from nbval.plugin import get_sanitize_patterns

from tools.book.runners import SANITIZE, SANITIZE_MODELLED

PATTERNS = {
    name: get_sanitize_patterns((ROOT / name).read_text(encoding="ascii"))
    for name in (SANITIZE, SANITIZE_MODELLED)
}
DRAWING = '<svg width="7pt">\n <g>\n  <!-- {} -->\n  <path d="M 1 2 L 3 4"/>\n </g>\n</svg>\n'
PEAKS = DRAWING.format("Peak figures from data sheets")


def sanitized(words, rules=SANITIZE):
    for pattern, replacement in PATTERNS[rules]:
        words = re.sub(pattern, replacement, words)
    return words


@pytest.mark.parametrize("name", PATTERNS)
def test_every_rule_of_the_file_is_read(name):
    # nbval drops a rule in silence where `replace` does not follow `regex` at once
    assert len(PATTERNS[name]) == (ROOT / name).read_text().count("\n[")


def test_where_the_clock_is_modelled_times_are_compared_and_nothing_else_is_left_out():
    modelled, real = PATTERNS[SANITIZE_MODELLED], PATTERNS[SANITIZE]
    assert modelled == [rule for rule in real if rule in modelled]
    for words in ("≈ 0.001450 s", "≈    12.5 µs", DRAWING.format("Times ≈")):
        assert "TIME" in sanitized(words) and sanitized(words, SANITIZE_MODELLED) == words


REAL_TABLE = """\
Sat Nov 21 22:06:44 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  Tesla T4                       Off |   00000000:00:04.0 Off |                    0 |
| N/A   36C    P0             32W /   70W |     103MiB /  15360MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|=========================================================================================|
+-----------------------------------------------------------------------------------------+
"""
FULL = (
    "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 14.74 GiB of "
    "which {} Of the allocated memory {} is allocated by PyTorch"
)
CPU = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:{}] err == 0. DefaultCPUAllocator: {}: you "
    "tried to allocate {} bytes.{}"
)
SAID = "RuntimeError: THE CPU: you tried to allocate 2048 bytes"
ROW = "|   0 {:>10}  {:>10}  {:<48}|"  # of a process, as the simulated nvidia-smi prints it


@pytest.mark.parametrize("name", PATTERNS)
def test_a_process_is_left_out_and_what_it_has_of_a_card_is_not(name):
    mine, other = ROW.format(7, "919MiB", "python"), ROW.format(123456, "919MiB", "python3.13")
    assert sanitized(mine, name) == sanitized(other, name) != mine
    assert "919MiB" in sanitized(mine, name) and "7" not in sanitized(mine, name)
    assert sanitized(mine, name) != sanitized(ROW.format(7, "2MiB", "python"), name)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("<Box object at 0x7f3a5c0de1f0>", "<Box object at ADDRESS>"),
        ("one by one ≈ 0.001450 s, 3", "one by one TIME, 3"),
        ("('a ≈ 12.5 ms', 'b ≈ 3 µs')", "('a TIME', 'b TIME')"),
        ("copy ≈ 12,345.6 GB/s of 64", "copy TIME of 64"),
        ("| 64 | ≈  8.1e-05 s | ≈ 1.02 |", "| 64 | TIME | TIME |"),
        ("≈ 3 times, ≈ 95 %, 5", "TIME, TIME, 5"),
        ("≈ 1, 234", "TIME, 234"),
        ("≈ 3 samples, ≈ 3 slow", "TIME samples, TIME slow"),
        ("≈ 3 ms/step", "TIME ms/step"),
        (DRAWING.format("Time of a copy ≈"), "DRAWING OF TIMES\n"),
        (f"{PEAKS}|{DRAWING.format('≈ 3 ms')}", f"{PEAKS}|DRAWING OF TIMES\n"),
        ("<svg><title>≈ 3 ms</title></svg>", "DRAWING OF TIMES"),
        ('{"unit":"≈ ns","total":3}', "TIMELINE"),
        (DRAWING.format("Loss, measured"), "MEASURED PLOT\n"),
        ("'355 of 360'", "'MOST of 360'"),
        (f"{PEAKS}|{DRAWING.format('Loss, measured')}", f"{PEAKS}|MEASURED PLOT\n"),
        ("0, NVIDIA H100 80GB HBM3, 81559 MiB\n1, Tesla T4, 15360 MiB\n", "0, CARD\n1, CARD\n"),
        ("last:\nAssertionError: Torch not compiled with CUDA enabled\n", "last:\nNO GPU\n"),
        ("RuntimeError: No CUDA GPUs are available", "NO GPU"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check\n3", "NO GPU\n3"),
        (REAL_TABLE, "TABLE OF THE DRIVER\n"),
        (REAL_TABLE.partition("\n")[2], "TABLE OF THE DRIVER\n"),
        (
            FULL.format("13.97 GiB is free. Process 77 has 9 MiB memory in use.", "512 bytes"),
            FULL.format("FREE.", "512 bytes"),
        ),
        (CPU.format("127", "can't allocate memory", "2048", " Error code 12 (Out of it)"), SAID),
        (CPU.format("116", "not enough memory", "2048", ""), SAID),
    ],
)
def test_rule_swallows(words, left):
    assert sanitized(words) == left


@pytest.mark.parametrize(
    "words",
    [
        "+----+\n| SIMULATED GPUs, by cudasim |\n+----+\n| NVIDIA |\n+----+",
        "Tried to allocate 1048576.00 GiB. Of the allocated memory 64.00 MiB is allocated",
        "you tried to allocate 2048 bytes",
        "Torch not compiled with CUDA enabled",
        "AssertionError: Torch not compiled with CUDA enabled, 3",
        "AcceleratorError: CUDA error: invalid device ordinal",
        "NVIDIA H100, 3, 81559 MiB free",
        "0x7f3a5c0de1f0",
        "~ 0.5 s",
        "≈",
        "≈ the same",
        "0.5 s ≈",
        'See {"unit":"≈ ns","total":3}',
        '{"unit":"ns","total":3}',
        "'342 of 360'",
        "'361 of 360'",
        "'1355 of 360'",
        "'355 of 3600'",
        PEAKS + "The next plot is measured, ≈ as before.",
        PEAKS + "≈ " + PEAKS,
        DRAWING.format("Bandwidth, measured"),
        '<svg><text>Loss, measured</text><path d="M 1 2"/></svg>',
    ],
)
def test_rule_leaves(words):
    assert sanitized(words) == sanitized(words, SANITIZE_MODELLED) == words
