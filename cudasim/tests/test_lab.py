"""The instruments of `cudasim.lab`: on simulated GPUs, on the CPU, and in a notebook."""

import random
import re
import time
import warnings
from collections import Counter

import pytest
import torch
from calls import MIB
from programs import run, write

import cudasim
from cudasim import lab

SIMULATED = "Two simulated T4 GPUs; values are real, times are modelled."
NO_GPU = "No GPU: the CPU alone."
DASH = "\N{EN DASH}"


@pytest.fixture
def gpus():
    """Two simulated GPUs whose times are modelled."""
    with cudasim.simulate(clock="modelled"):
        yield


@pytest.fixture(params=["modelled", "CPU"])
def device(request):
    """The device of a reader with simulated GPUs, and of one without."""
    if request.param == "CPU":
        yield lab.try_gpu()
        return
    with cudasim.simulate(clock="modelled"):
        yield lab.try_gpu()


# Importing and starting.


def program(tmp_path, source, **variables):
    """Return what a program prints, and the last line of its error."""
    write(tmp_path / "program.py", source)
    variables = {"CUDA_VISIBLE_DEVICES": None} | variables
    result = run("program.py", cwd=tmp_path, **variables)
    errors = result.stderr.strip().splitlines()
    return result.stdout.splitlines(), errors[-1] if errors else ""


def test_importing_imports_no_framework(tmp_path):
    source = """\
        import sys
        from cudasim.lab import Allocator, attempt, chart, seconds, start, table
        print({"torch", "matplotlib", "IPython"} & set(sys.modules))
        """
    result = run("-c", source.replace("        ", ""), cwd=tmp_path, fresh=True)
    assert result.stdout == "set()\n", result.stderr


def test_every_public_name_is_there():
    for name in lab.__all__:
        assert getattr(lab, name).__doc__, name
    assert set(lab.__all__) <= set(dir(lab))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lab.nothing  # noqa: B018


TWICE = """\
    import cudasim.lab as lab
    lab.start({0})
    lab.start({0})
    import torch
    print(torch.cuda.device_count())
    """


@pytest.mark.parametrize(
    ("arguments", "variables", "line", "number"),
    [
        ("", {}, SIMULATED, "2"),
        ("simulate=True", {}, SIMULATED, "2"),
        ("gpus=1, card='H100'", {}, SIMULATED.replace("Two", "One"), "1"),
        ("simulate=False", {}, NO_GPU, "0"),
        ("", {"CUDA_VISIBLE_DEVICES": "-1"}, NO_GPU, "0"),
        ("", {"CUDASIM_GPUS": "2", "CUDASIM_CLOCK": "modelled"}, SIMULATED, "2"),
    ],
)
def test_starting_says_what_is_here(tmp_path, arguments, variables, line, number):
    if "H100" in arguments:
        line = line.replace("T4 GPUs", "H100 GPU")
    lines, error = program(tmp_path, TWICE.format(arguments), **variables)
    assert lines == [line, line, number], error


def test_starting_leaves_an_accelerator_alone(tmp_path):
    source = """\
        import torch
        import cudasim.lab as lab
        torch.accelerator.is_available = lambda: True
        torch.accelerator.current_accelerator = lambda: torch.device("xpu")
        torch.accelerator.device_count = lambda: 1
        torch.xpu.get_device_name = lambda device: "A card"
        lab.start()
        print(lab.is_modelled())
        """
    assert program(tmp_path, source)[0] == ["1 GPU: A card", "False"]


OLD_TORCH = """\
    from importlib import metadata
    own = metadata.version
    metadata.version = lambda name: "{}" if name == "torch" else own(name)
    """
OBSTACLES = {
    "an old Python": (
        "import sys; sys.version_info, sys.version = (3, 10, 4), '3.10.4 (main)'",
        "",
        "Python 3.10.4 is too old, take 3.11 or later",
    ),
    "no torch": (
        "import importlib.util as u; own = u.find_spec; "
        "u.find_spec = lambda name: None if name == 'torch' else own(name)",
        "",
        "PyTorch is not installed: pip install",
    ),
    "torch is too old": (
        OLD_TORCH.format("2.8.0"),
        "",
        "torch 2.8.0 is too old: take 2.9",
    ),
    "torch is too old to be simulated": (
        OLD_TORCH.format("2.10.0"),
        "simulate=True",
        "torch 2.10.0 is too old: take 2.11",
    ),
    "a GPU is in use": (
        "import torch; torch.cuda.is_initialized = lambda: True",
        "",
        "this process has used a real GPU",
    ),
    "an older cudasim": (
        "import cudasim; cudasim._HOMES.pop('timeline')",
        "",
        "an older cudasim is loaded",
    ),
    "another simulation": (
        "import cudasim; cudasim.enable(gpus=3)",
        "simulate=True",
        "3 GPUs (T4) are simulated already: restart the kernel",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_what_is_in_the_way_is_one_line(tmp_path, name):
    before, arguments, words = OBSTACLES[name]
    source = f"{before}\nimport cudasim.lab as lab\nlab.start({arguments})\n"
    lines, error = program(tmp_path, re.sub("(?m)^ +", "", source))
    assert not [line for line in lines if not line.startswith("cudasim: ")]
    assert "NotReady: " in error
    assert words in error


def test_a_notebook_shows_an_obstacle_as_one_line():
    error = lab.NotReady("torch is missing")
    assert error._render_traceback_() == ["Not ready: torch is missing"]


def test_if_there_can_be_no_simulation_the_cpu_will_do(tmp_path):
    source = f"{OLD_TORCH.format('2.10.0')}\nimport cudasim.lab as lab\nlab.start()\n"
    lines, error = program(tmp_path, re.sub("(?m)^ +", "", source))
    assert error == ""
    [line] = lines
    assert line.startswith("No simulated GPUs: torch 2.10.0 is too old: take 2.11")
    assert line.endswith("The CPU alone.")


@pytest.mark.parametrize("arguments", [{"simulate": "maybe"}, {"framework": "numpy"}])
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ValueError, match="take "):
        lab.start(**arguments)


# Devices and times.


def test_devices_are_those_of_pytorch(gpus):
    assert lab.try_gpu() == torch.device("cuda:0")
    assert lab.try_gpu(1) == torch.device("cuda:1")
    assert lab.try_gpu(2) == lab.try_gpu(-1) == torch.device("cpu")
    assert lab.accelerator() == "cuda"
    assert lab.card() == lab.card("cuda:1") == "T4, modelled"
    assert lab.is_modelled()


def test_without_a_gpu_everything_is_the_cpu():
    assert lab.try_gpu() == torch.device("cpu")
    assert lab.accelerator() == "cpu"
    assert lab.card() == lab.card("cpu") != ""
    assert not lab.is_modelled()
    assert lab.allocated() == 0
    lab.synchronize()


def test_apples_gpu_has_a_name_and_no_model():
    with cudasim.simulate(gpus=1, device_type="mps"):
        assert lab.try_gpu().type == lab.accelerator() == "mps"
        assert lab.card().endswith(", simulated")
        assert lab.about(0.002) == "≈ 2 ms"
        assert lab.about({"X": 0.002}) == {"X": "≈ 2 ms"}
        X = torch.ones(1024, device=lab.try_gpu())
        assert lab.allocated() >= X.nbytes
        assert lab.peak(lambda: X + 1) == X.nbytes


def test_a_time_ends_when_the_devices_are_done(gpus):
    """A T4 reads and writes 8 GB of 320 GB/s in 25 ms; a launch takes microseconds."""
    X = torch.empty(10**9, device="cuda:1")
    launched, done = lab.launched_and_done(lambda: X.add_(1))
    assert launched < 1e-4
    assert 0.025 < done < 0.05
    assert lab.seconds(X.add_, 1, runs=1) == pytest.approx(done, rel=0.01)


def test_the_median_leaves_out_what_is_rare(gpus):
    durations = iter([9, 0.02, 5, 0.01, 0.03, 7])  # a warm-up, and five runs

    def work():
        time.sleep(next(durations))

    assert lab.seconds(work) == pytest.approx(0.03, rel=0.01)
    assert next(durations, None) is None
    with pytest.raises(ValueError, match="one run"):
        lab.seconds(work, runs=0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234, "1.2 s"), (0.0999, "100 ms"), (0.99999, "1 s"), (3.14e-6, "3.1 µs")],
)
def test_times_have_two_digits_and_a_unit(seconds, text):
    assert lab.short(seconds) == text
    assert lab.about(seconds) == f"≈ {text}"


def test_modelled_times_name_the_card(gpus):
    assert lab.about(0.0032) == "≈ 3.2 ms, modelled for a T4"
    both = {"slow": 1.5, "fast": 0.0032}
    texts = {"slow": "≈ 1.5 s", "fast": "≈ 3.2 ms"}
    assert lab.about(both) == texts | {"times": "modelled for a T4"}
    cudasim.disable()
    with cudasim.simulate(card="H100", clock="modelled"):
        assert lab.about(0.0032) == "≈ 3.2 ms, modelled for an H100"


# Text.


def test_an_error_is_shown_with_the_lines_of_the_program(tmp_path):
    source = """\
        from cudasim.lab import attempt
        def fail(what):
            return [][what]
        print(attempt(fail, 3), attempt(len, "ab"))
        """
    lines, error = program(tmp_path, source)
    assert lines == [
        "Traceback (most recent call last):",
        '  File "program.py", line 3, in fail',
        "    return [][what]",
        "IndexError: list index out of range",
        "None 2",
    ]
    assert error == ""


def test_in_a_notebook_the_lines_are_those_of_cells(capsys):
    name = "/tmp/ipykernel_12/345.py"
    names = {}
    exec(compile("def fail():\n    1 / 0", name, "exec"), names)
    lab.attempt(names["fail"])
    printed = capsys.readouterr().out
    assert "  Cell, line 2, in fail\n" in printed
    assert printed.endswith("ZeroDivisionError: division by zero\n")


def test_numbers_of_a_table_are_on_the_right():
    table = lab.table(["n", "time", "who"], [[1, "≈ 2 ms", "a|b"], [None, DASH, 3]])
    assert repr(table).splitlines() == [
        "| n | time | who |",
        "| --: | --: | :-- |",
        "| 1 | ≈ 2 ms | a\\|b |",
        f"| {DASH} | {DASH} | 3 |",
    ]
    assert table._repr_markdown_() == repr(table)
    with pytest.raises(ValueError, match="2 cells under 1 heads"):
        lab.table(["n"], [[1, 2]])


def test_nvidia_smi_answers_for_simulated_gpus_alone():
    assert lab.nvidia_smi("-L") == "No NVIDIA GPU that this program can use."
    with cudasim.simulate(gpus=2):
        lines = lab.nvidia_smi("-L").splitlines()
    assert [line[:6] for line in lines] == ["GPU 0:", "GPU 1:"]


# Counts.


def test_reads_are_counted_on_every_device(device, capsys):
    X = torch.ones(2, 2, device=device)

    def work():
        total = X.sum()
        if total > 3:
            print(X, f"{total}", total.item(), float(total))
        return X.tolist(), X.cpu(), X.to("cpu"), int(total), [0, 1][total.long() - 4]

    assert lab.reads(work) == 10
    assert lab.reads(lambda: X @ X + X.shape[0]) == 0


def test_the_line_that_waits_is_found(device):
    X = torch.ones(2, 2, device=device)

    def waits():
        Y = X + 1
        if Y.sum() > 3:
            Y += 1
        return Y.tolist()

    def masks():
        return X[X > 0]

    assert lab.first_wait(waits) == "if Y.sum() > 3:"
    assert lab.first_wait(masks) == "return X[X > 0]"
    assert lab.first_wait(lambda: X[:, 0] + X[1]) is None


def test_other_errors_are_not_taken_for_waits(device):
    X = torch.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        lab.first_wait(lambda: X @ X)
    if device.type == "cuda":
        assert torch.cuda.get_sync_debug_mode() == 0


def test_calls_are_counted_by_name(device):
    X = torch.ones(2, 2, device=device)
    target = torch.tensor([0, 1]).to(device)

    def work():
        for _ in range(3):
            loss = torch.nn.functional.cross_entropy(X @ X + 1, target)
        return loss.shape

    assert lab.calls(work) == Counter(matmul=3, add=3, cross_entropy=3)


COPIES = {
    "to the GPU": (lambda X: torch.ones(5).to(X.device), 20),
    "to the host": (lambda X: X.cpu(), 4096),
    "to the other GPU": (lambda X: X.to("cuda:1"), 4096),
    "into a tensor": (lambda X: X.copy_(torch.ones(1024)), 4096),
    "of a number": (lambda X: X.sum().item(), 4),
    "nowhere": (lambda X: X.to(X.device) + X.clone(), 0),
}


@pytest.mark.parametrize("clock", ["modelled", None])
@pytest.mark.parametrize("name", COPIES)
def test_bytes_between_devices_are_counted(clock, name):
    copy, nbytes = COPIES[name]
    with cudasim.simulate(clock=clock):
        X = torch.ones(1024, device="cuda:0")
        assert lab.bytes_copied(lambda: copy(X)) == nbytes


def test_the_cpu_copies_nothing():
    assert lab.bytes_copied(lambda: torch.ones(3).to("cpu").tolist()) == 0


# Memory.


def test_memory_is_counted(device):
    """The second sum is made while the first is held, and each has a megabyte."""
    X = torch.ones(2**18, device=device)
    assert lab.allocated(device) == (0 if device.type == "cpu" else MIB)
    assert lab.peak(lambda: (X + 1) + 1, device) == 2 * MIB
    assert lab.peak(lambda: X.add_(1), device) == 0
    views = lab.peak(lambda: [X[:5].view(5, 1) for _ in range(3)], device)
    assert views == 0


def test_a_trace_shows_when_memory_fills_and_empties(device):
    X = torch.ones(2**18, device=device, requires_grad=True)
    with lab.trace_memory(device) as held:
        Y = X * 1
        assert held == [MIB]
        Z = Y * Y
        assert held == [MIB, 2 * MIB]
        del Y, Z
        X.add(1)
    assert held[-1] == MIB
    before = len(held)
    assert (X + 1).sum() > 0
    assert len(held) == before


@pytest.mark.parametrize(
    ("tensors", "reserved"),
    [
        # From "Memory management" of PyTorch's notes on CUDA, and from published logs.
        ([0.5], 2),
        ([1.5], 20),
        ([19.5], 20),
        ([10, 11], 22),
        ([512 / MIB] * 4096 + [512 / MIB], 4),
    ],
)
def test_a_segment_has_one_of_three_sizes(tensors, reserved):
    model = lab.Allocator()
    for number, mib in enumerate(tensors):
        model.allocate(f"T{number}", mib)
    assert model.reserved == reserved * MIB


def test_holes_are_too_small_and_whole_segments_go_back():
    model = lab.Allocator()
    eight = [(f"T{number}", 5) for number in range(8)]
    every_second = [(f"T{number}", 0) for number in range(0, 8, 2)]
    model.play([*eight, *every_second])
    assert repr(model).splitlines() == [
        "40 MiB reserved, 20 MiB allocated",
        "20 MiB = [5] + T1 5 + [5] + T3 5",
        "20 MiB = [5] + T5 5 + [5] + T7 5",
    ]
    model.play([("U", 9)])
    assert model.reserved == 60 * MIB
    model.play([("U", 0), "empty_cache"])
    assert model.reserved == 40 * MIB
    assert model.allocated == model.segments.allocated == 20 * MIB


def test_an_allocator_refuses_what_makes_no_sense():
    model = lab.Allocator().play([("A", 1)])
    with pytest.raises(ValueError, match="'A' is allocated already"):
        model.allocate("A", 1)
    with pytest.raises(ValueError, match="more than 0 MiB"):
        model.allocate("B", 0)
    with pytest.raises(KeyError, match="B"):
        model.free("B")
    with pytest.raises(ValueError, match="max_split_size_mb too small"):
        lab.Allocator(max_split=19)


SIZES = [0.001, 0.3, 0.7, 1, 1.2, 3, 5, 7.5, 9, 10, 11, 15.5, 19.5, 21, 30, 64]


def random_script(seed):
    """Return a script that allocates, frees and empties the cache by chance."""
    rng = random.Random(seed)
    live = []
    script = []
    for number in range(25):
        dice = rng.random()
        if live and dice < 0.4:
            script.append((live.pop(rng.randrange(len(live))), 0))
        elif dice < 0.5:
            script.append("empty_cache")
        else:
            live.append(f"T{number}")
            script.append((live[-1], rng.choice(SIZES)))
    return script


OPTIONS = [
    {},
    {"expandable": True},
    {"max_split": 32},
    {"roundup": 4},
    {"expandable": True, "roundup": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_model_does_what_the_gpus_allocator_does(gpus, options):
    for seed in range(20):
        script = random_script(seed)
        model = lab.Allocator(**options).play(script)
        assert lab.play(script, **options) == model.segments, seed
    assert torch.cuda.memory_reserved() == 0


def test_a_script_leaves_device_and_stream_as_they_were(gpus):
    with torch.cuda.device(1):
        lab.play([("A", 5)])
        assert torch.cuda.current_device() == 1
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        lab.play([("A", 5)])
        assert torch.cuda.current_stream() == stream


def test_without_a_gpu_the_model_plays():
    script = [("A", 5), ("B", 6), ("A", 0)]
    segments = lab.play(script)
    assert segments == lab.Allocator().play(script).segments
    assert segments == [
        [lab.Block(5 * MIB), lab.Block(6 * MIB, "B"), lab.Block(9 * MIB)]
    ]
    assert segments.lines() == ["20 MiB = [5] + B 6 + [9]"]
    assert (segments.reserved, segments.allocated) == (20 * MIB, 6 * MIB)


# Pictures.


@pytest.fixture
def svg(tmp_path):
    """Return a function that saves the last picture, and returns its SVG."""
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="pictures need Matplotlib")
    before = pyplot.get_backend()
    pyplot.switch_backend("svg")

    def save():
        path = tmp_path / "picture.svg"
        with pyplot.rc_context({"svg.fonttype": "none"}):
            pyplot.savefig(path)
        return path.read_text(encoding="utf-8")

    with warnings.catch_warnings(action="error"):
        yield save
    pyplot.close("all")
    pyplot.switch_backend(before)


def test_segments_are_drawn_without_a_warning(svg):
    small = lab.Allocator().play([("s", 0.3)]).segments
    large = lab.Allocator().play([("A", 5), ("B", 6), ("A", 0)]).segments
    lab.draw_segments({"small": small, "none": [], "large": large})
    picture = svg()
    for text in ("small", "none", "large", "B, 6 MiB", "5 MiB free"):
        assert f">{text}<" in picture
    assert not re.search(r'(width|height)="-', picture)
    with pytest.raises(ValueError, match="no segment"):
        lab.draw_segments({"none": []})


def test_a_chart_names_the_card_of_modelled_times(svg, gpus):
    lab.chart({"before": 0.051, "after": 0.0072, "lost": None}, unit="s", title="steps")
    picture = svg()
    for text in ("≈ 51 ms", "≈ 7.2 ms", DASH, "steps", "modelled for a T4"):
        assert f">{text}<" in picture
    lab.chart({"small": 3}, unit="MiB")
    assert ">3 MiB<" in svg()
    with pytest.raises(ValueError, match="no values"):
        lab.chart({})


# Versions of a program.


def test_measure_takes_the_time_and_memory_of_the_work_without_its_preparation(gpus):
    def prepare():
        X = torch.ones(1024, 1024, device="cuda")
        (X @ X).sum().item()
        return (X,)

    def work(X):
        print("not shown")
        return (X + X).sum()

    run = lab.measure(work, prepare)
    assert run.result.item() == 2 * 2**20
    assert run.peak >= 8 * MIB
    assert 0 < run.busy < 1
    on_h100 = lab.measure(work, prepare, card="H100")
    assert on_h100.seconds < run.seconds

    text = repr(lab.compare({"sum": run}))
    assert "time, modelled for a T4" in text
    assert f"≈ {lab.short(run.seconds)}" in text


def test_measure_knows_neither_busy_nor_peak_without_a_gpu():
    run = lab.measure(lambda: torch.ones(3).sum())
    assert run.seconds > 0
    assert run.busy is None
    assert run.peak is None
    assert DASH in repr(lab.compare({"sum": run}))
