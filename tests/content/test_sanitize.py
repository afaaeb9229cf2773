"""What the files of rules take out of the comparison, and what they must leave in."""

import re
from pathlib import Path

import pytest
from helpers import ROOT
from nbval.plugin import get_sanitize_patterns

from tools.book.book import Book
from tools.book.runners import GPU, SANITIZE, SANITIZE_MODELLED


def rules_in(name):
    """Return the pairs (pattern, replacement) that nbval reads from a file."""
    text = (ROOT / name).read_text(encoding="ascii")
    rules = get_sanitize_patterns(text)
    # nbval drops a rule in silence where `replace` does not follow `regex` at once.
    assert len(rules) == text.count("\n[")
    return rules


PATTERNS = {name: rules_in(name) for name in (SANITIZE, SANITIZE_MODELLED)}
DRAWING = """\
<svg width="7pt">
 <g>
  <!-- {} -->
  <path d="M 1 2 L 3 4"/>
 </g>
</svg>
"""
PEAKS = DRAWING.format("Peak figures from data sheets")


def sanitized(words, rules=SANITIZE):
    for pattern, replacement in PATTERNS[rules]:
        words = re.sub(pattern, replacement, words)
    return words


def test_a_modelled_clock_has_fewer_rules():
    modelled = PATTERNS[SANITIZE_MODELLED]
    assert modelled == [rule for rule in PATTERNS[SANITIZE] if rule in modelled]


@pytest.mark.parametrize("words", ["≈ 0.001450 s", DRAWING.format("Times ≈")])
def test_times_are_compared_where_the_clock_is_modelled(words):
    assert "TIME" in sanitized(words)
    assert sanitized(words, SANITIZE_MODELLED) == words


# The row of a process, as the simulated nvidia-smi prints it.
PROCESS_ROW = "|   0     123456      919MiB  " + "python3.13".ljust(48) + "|"
# What is printed, and what is left of it.
TIMES = [
    ("('a ≈ 12.5 ms', 'b ≈ 3 µs')", "('a TIME', 'b TIME')"),
    ("copy ≈ 12,345.6 GB/s of 64", "copy TIME of 64"),
    ("| 64 | ≈  8.1e-05 s | ≈ 1.02 |", "| 64 | TIME | TIME |"),
    ("≈ 3 times, ≈ 95 %, 5, ≈ 1, 234", "TIME, TIME, 5, TIME, 234"),
    ("≈ 3 samples, ≈ 3 ms/step", "TIME samples, TIME ms/step"),
    ('{"unit":"≈ ns","total":3}', "TIMELINE"),
    (PEAKS + DRAWING.format("≈ 3 ms"), PEAKS + "DRAWING OF TIMES\n"),
]
RESULTS = [
    ("'355 of 360'", "'MOST of 360'"),
    (PEAKS + DRAWING.format("Loss, measured"), PEAKS + "MEASURED PLOT\n"),
    ("<Box object at 0x7f3a5c0de1f0>", "<Box object at ADDRESS>"),
    (PROCESS_ROW, "|   0 PROCESS      919MiB"),
]

TWO_CARDS = "0, NVIDIA H100 80GB HBM3, 81559 MiB\n1, Tesla T4, 15360 MiB\n"
NOT_COMPILED = "AssertionError: Torch not compiled with CUDA enabled"
NO_DRIVER = "RuntimeError: Found no NVIDIA driver on your system. Please check"
# What a real nvidia-smi prints.
TABLE = Path(__file__).with_name("nvidia-smi.txt").read_text(encoding="utf-8")
_, _, TABLE_WITHOUT_DATE = TABLE.partition("\n")
OUT_OF_MEMORY = (
    "GPU 0 has a total capacity of 14.74 GiB of which {} Of the allocated memory"
)
IN_USE = "13.97 GiB is free. Process 77 has 9 MiB memory in use."
DRIVERS = [
    (TWO_CARDS, "0, CARD\n1, CARD\n"),
    (f"last:\n{NOT_COMPILED}\n", "last:\nNO GPU\n"),
    ("RuntimeError: No CUDA GPUs are available", "NO GPU"),
    (f"{NO_DRIVER}\n3", "NO GPU\n3"),
    (TABLE, "TABLE OF THE DRIVER\n"),
    (TABLE_WITHOUT_DATE, "TABLE OF THE DRIVER\n"),
    (OUT_OF_MEMORY.format(IN_USE), OUT_OF_MEMORY.format("FREE.")),
]

# The CPU without memory, as it is said on Linux and on Windows.
ON_LINUX = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 2048 bytes. Error code 12 (Out of it)"
)
ON_WINDOWS = (
    "[enforce fail at alloc_cpu.cpp:116] err == 0. DefaultCPUAllocator: not enough memory: "
    "you tried to allocate 2048 bytes."
)
CPU_MEMORY = [
    (ON_LINUX, "THE CPU: you tried to allocate 2048 bytes"),
    (ON_WINDOWS, "THE CPU: you tried to allocate 2048 bytes"),
]
LEFT_ALONE = [
    "+----+\n| SIMULATED GPUs, by cudasim |\n+----+\n| NVIDIA |\n+----+",
    "Tried to allocate 1048576.00 GiB. Of the allocated memory 64.00 MiB is allocated",
    "you tried to allocate 2048 bytes",
    f"{NOT_COMPILED}, 3",
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


@pytest.mark.parametrize(("words", "left"), TIMES + RESULTS + DRIVERS + CPU_MEMORY)
def test_rules_take_out_what_no_two_runs_repeat(words, left):
    assert sanitized(words) == left


@pytest.mark.parametrize("words", LEFT_ALONE)
@pytest.mark.parametrize("rules", PATTERNS)
def test_rules_leave_the_rest_alone(words, rules):
    assert sanitized(words, rules) == words


# In what is recorded, no rule takes out more than these.
LEFT_OUT = {
    SANITIZE_MODELLED: (
        r"(?s:<svg.*<!-- Loss, measured -->.*)",
        r"\b3(?:4[3-9]|5\d|60) of 360\b",
        # A process in the simulated nvidia-smi.
        r"\d+(?= +\d+MiB  \S)|(?<=MiB  )\S+ +(?=\|)",
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
    """Yield a text with one character changed, for places that a rule may swallow.

    In a long stretch, only some characters are changed.
    """
    for pattern, _ in PATTERNS[rules]:
        for match in re.finditer(pattern, value):
            for at in range(match.start(), match.end(), len(match[0]) // 50 + 1):
                yield value[:at] + another(value[at]) + value[at + 1 :]


def another(character):
    """Return another character; for a digit another digit, as formats have it."""
    if character.isdigit():
        return str((int(character) + 1) % 10)
    if character == "#":
        return "*"
    return "#"


def recorded_texts(recordings):
    for place, outputs in recordings.items():
        for cell in outputs.cells:
            for output in cell.outputs:
                if output.output_type == "stream":
                    yield place, cell, output.text
                else:
                    for text in output.data.values():
                        yield place, cell, text


def test_no_rule_swallows_more_than_is_to_be_left_out(recordings):
    runners = Book(ROOT).runners
    for place, cell, value in recorded_texts(recordings):
        runner, _ = place
        rules = runners.get(runner, runners[GPU]).sanitize
        left_out = re.compile("|".join(LEFT_OUT[rules]))
        whole = sanitized(value, rules)
        for false in falsified(value, rules):
            if sanitized(false, rules) == whole:
                kept = left_out.sub("", value)
                assert kept == left_out.sub("", false), (place, cell.id)


def test_a_drawing_that_is_not_compared_is_asserted(recordings):
    for place, cell, value in recorded_texts(recordings):
        if "<svg" in value and "<svg" not in sanitized(value):
            times = "times" in cell.metadata.get("tags", [])
            assert times or "\nassert " in cell.source, (place, cell.id)
