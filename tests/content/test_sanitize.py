"""What the files of rules take out of the comparison, and what they must leave in."""

import re
from pathlib import Path

import pytest
from helpers import ROOT
from nbval.plugin import get_sanitize_patterns

from tools.book.book import Book
from tools.book.runners import GPU, SANITIZE, SANITIZE_MODELLED

TEXTS = {
    name: (ROOT / name).read_text(encoding="ascii")
    for name in (SANITIZE, SANITIZE_MODELLED)
}
PATTERNS = {name: get_sanitize_patterns(text) for name, text in TEXTS.items()}
DRAWING = (
    '<svg width="7pt">\n <g>\n  <!-- {} -->\n  <path d="M 1 2 L 3 4"/>\n </g>\n</svg>\n'
)
PEAKS = DRAWING.format("Peak figures from data sheets")


def sanitized(words, rules=SANITIZE):
    for pattern, replacement in PATTERNS[rules]:
        words = re.sub(pattern, replacement, words)
    return words


def test_where_the_clock_is_modelled_fewer_rules_hold_and_times_are_compared():
    for name, rules in PATTERNS.items():
        # nbval drops a rule in silence where `replace` does not follow `regex` at once
        assert len(rules) == TEXTS[name].count("\n[")
    modelled, real = PATTERNS[SANITIZE_MODELLED], PATTERNS[SANITIZE]
    assert modelled == [rule for rule in real if rule in modelled]
    for words in ("≈ 0.001450 s", DRAWING.format("Times ≈")):
        assert (
            "TIME" in sanitized(words) and sanitized(words, SANITIZE_MODELLED) == words
        )


REAL_TABLE = Path(__file__).with_name("nvidia-smi.txt").read_text(encoding="utf-8")
FULL = "GPU 0 has a total capacity of 14.74 GiB of which {} Of the allocated memory 512 bytes"
CPU = "[enforce fail at alloc_cpu.cpp:{}] err == 0. DefaultCPUAllocator: {}: you tried to allocate "
SAID = "THE CPU: you tried to allocate 2048 bytes"
ROW = "|   0 {:>10}  {:>10}  {:<48}|"  # of a process, as the simulated nvidia-smi prints it
LEFT = [  # what is printed, and what is left of it
    (ROW.format(123456, "919MiB", "python3.13"), "|   0 PROCESS      919MiB"),
    ("<Box object at 0x7f3a5c0de1f0>", "<Box object at ADDRESS>"),
    ("('a ≈ 12.5 ms', 'b ≈ 3 µs')", "('a TIME', 'b TIME')"),
    ("copy ≈ 12,345.6 GB/s of 64", "copy TIME of 64"),
    ("| 64 | ≈  8.1e-05 s | ≈ 1.02 |", "| 64 | TIME | TIME |"),
    ("≈ 3 times, ≈ 95 %, 5, ≈ 1, 234", "TIME, TIME, 5, TIME, 234"),
    ("≈ 3 samples, ≈ 3 ms/step", "TIME samples, TIME ms/step"),
    (f"{PEAKS}|{DRAWING.format('≈ 3 ms')}", f"{PEAKS}|DRAWING OF TIMES\n"),
    ('{"unit":"≈ ns","total":3}', "TIMELINE"),
    ("'355 of 360'", "'MOST of 360'"),
    (f"{PEAKS}|{DRAWING.format('Loss, measured')}", f"{PEAKS}|MEASURED PLOT\n"),
    (
        "0, NVIDIA H100 80GB HBM3, 81559 MiB\n1, Tesla T4, 15360 MiB\n",
        "0, CARD\n1, CARD\n",
    ),
    (
        "last:\nAssertionError: Torch not compiled with CUDA enabled\n",
        "last:\nNO GPU\n",
    ),
    ("RuntimeError: No CUDA GPUs are available", "NO GPU"),
    (
        "RuntimeError: Found no NVIDIA driver on your system. Please check\n3",
        "NO GPU\n3",
    ),
    (REAL_TABLE, "TABLE OF THE DRIVER\n"),
    (REAL_TABLE.partition("\n")[2], "TABLE OF THE DRIVER\n"),
    (
        FULL.format("13.97 GiB is free. Process 77 has 9 MiB memory in use."),
        FULL.format("FREE."),
    ),
    (
        CPU.format("127", "can't allocate memory")
        + "2048 bytes. Error code 12 (Out of it)",
        SAID,
    ),
    (CPU.format("116", "not enough memory") + "2048 bytes.", SAID),
]
LEFT_ALONE = [
    "+----+\n| SIMULATED GPUs, by cudasim |\n+----+\n| NVIDIA |\n+----+",
    "Tried to allocate 1048576.00 GiB. Of the allocated memory 64.00 MiB is allocated",
    "you tried to allocate 2048 bytes",
    "AssertionError: Torch not compiled with CUDA enabled, 3",
    "AcceleratorError: CUDA error: invalid device ordinal",
    "NVIDIA H100, 3, 81559 MiB free",
    "0x7f3a5c0de1f0",
    "≈ the same",
    "0.5 s ≈",
    'See {"unit":"≈ ns","total":3}',
    '{"unit":"ns","total":3}',
    "'342 of 360', '361 of 360', '1355 of 360', '355 of 3600'",
    PEAKS + "The next plot is measured, ≈ as before." + PEAKS,
    DRAWING.format("Bandwidth, measured"),
]


@pytest.mark.parametrize("words, left", LEFT + [(words, words) for words in LEFT_ALONE])
def test_rules_take_out_what_no_two_runs_repeat_and_leave_the_rest(words, left):
    assert sanitized(words) == left
    assert left != words or sanitized(words, SANITIZE_MODELLED) == words


# In what is recorded, no rule takes out more than these.
LEFT_OUT = {
    SANITIZE_MODELLED: (
        r"(?s:<svg.*<!-- Loss, measured -->.*)",
        r"\b3(?:4[3-9]|5\d|60) of 360\b",
        r"\d+(?= +\d+MiB  \S)|(?<=MiB  )\S+ +(?=\|)",  # a process in the simulated nvidia-smi
    ),
    SANITIZE: (
        r"(?s:<svg.*≈.*)|(?s:\A\{\"unit\":\"≈ ns\".*)",
        r"≈ +[\d.,e+-]*\d(?: [\wµ/]+| %)?",
        r", (?:NVIDIA|Tesla|Quadro|GeForce)[^,\n]*, \d+ MiB",
        r"(?<=alloc_cpu\.cpp:)\d+|(?<=\]).*?(?=you tried to allocate)",
        r"(?<=allocate 1125899906842624 bytes)[^\n]*",
    ),
}
LEFT_OUT[SANITIZE] += LEFT_OUT[SANITIZE_MODELLED]


def falsified(value, rules):
    """A text with a character changed where a rule may swallow it; of a long stretch, with some.

    A digit becomes another digit, as formats have it.
    """
    for pattern, _ in PATTERNS[rules]:
        for match in re.finditer(pattern, value):
            for at in range(match.start(), match.end(), len(match[0]) // 50 + 1):
                sign = value[at]
                other = (
                    str((int(sign) + 1) % 10)
                    if sign.isdigit()
                    else "*"
                    if sign == "#"
                    else "#"
                )
                yield value[:at] + other + value[at + 1 :]


def recorded_texts(recordings):
    for place, outputs in recordings.items():
        for cell in outputs.cells:
            for output in cell.outputs:
                texts = (
                    [output.text]
                    if output.output_type == "stream"
                    else output.data.values()
                )
                yield from ((place, cell, text) for text in texts)


def test_no_rule_swallows_more_of_what_is_recorded_than_is_to_be_left_out(recordings):
    runners = Book(ROOT).runners
    for (runner, name), cell, value in recorded_texts(recordings):
        rules = runners.get(runner, runners[GPU]).sanitize
        compared, whole = re.compile("|".join(LEFT_OUT[rules])), sanitized(value, rules)
        for false in falsified(value, rules):
            if sanitized(false, rules) == whole:
                assert compared.sub("", value) == compared.sub("", false), (
                    runner,
                    name,
                    cell.id,
                )


def test_a_drawing_that_is_not_compared_shows_times_or_data_that_are_asserted(
    recordings,
):
    for place, cell, value in recorded_texts(recordings):
        if "<svg" in value and "<svg" not in sanitized(value):
            times = "times" in cell.metadata.get("tags", [])
            assert times or "\nassert " in cell.source, (place, cell.id)
