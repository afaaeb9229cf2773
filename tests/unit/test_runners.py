"""Runners are what kernels/ declares; real GPUs are recorded with simulated ones for them."""

import datetime
import json
import signal
import subprocess

import pytest
import torch
from helpers import (
    CARD,
    ROOT,
    assert_one_line,
    contents,
    copy_kernel,
    edit,
    read,
    run_tool,
    start_tool,
)
from test_execute import kernels_of, wait_until

from tools.errors import BookError
from tools.page.merge import chapter_page
from tools.page.status import chapters_table
from tools.run.execute import one_at_a_time
from tools.run.recordings import outputs_path, read_outputs
from tools.run.runners import (
    local_runners,
    runner_chapters,
    runner_label,
    runner_legend,
    runner_names,
    simulator_digest,
    use_runner,
)
from tools.source.chapters import cell_keys, read_chapter

# What a kernel.json says.


def test_this_books_runners_and_that_two_simulated_gpus_are_shown_first():
    assert runner_names() == ["simulated", "cpu", "gpu", "simulated-mps"]
    assert local_runners() == ["simulated", "cpu", "simulated-mps"]


@pytest.mark.parametrize("runner", runner_names())
def test_every_runner_tells_readers_what_it_is(runner):
    assert runner_label(runner) != runner and len(runner_legend(runner)) > 20


def test_what_is_in_kernels_beside_the_runners_is_none(small_book):
    (small_book / "kernels" / "notes").mkdir()
    assert runner_names(small_book) == ["cpu"]


def test_a_runner_without_metadata_goes_by_its_name_and_has_all_chapters(small_book):
    copy_kernel(small_book, "cpu", "plain", metadata={})
    assert runner_label("plain", small_book) == "plain"
    assert runner_chapters("plain", small_book) == ["first", "second"]


def test_a_runner_may_be_for_some_chapters_only(small_book):
    copy_kernel(small_book, "cpu", "extra", metadata={"runner": {"chapters": ["second"]}})
    assert runner_chapters("extra", small_book) == ["second"]
    run = run_tool(small_book, "record", "extra", "first")
    assert run.returncode == 1
    assert_one_line(run.stderr, "notebooks/first.ipynb: no chapter of extra", "second")


def test_an_unknown_runner_is_told_with_those_there_are(small_book):
    with pytest.raises(BookError) as error:
        use_runner("toaster", small_book)
    assert_one_line(str(error.value), "kernels/: no runner 'toaster'", "cpu")


def test_the_simulator_counts_for_the_runners_that_simulate(recorded_on_gpus, gpu_book):
    assert simulator_digest("cpu", gpu_book) is None
    before = simulator_digest("gpu", gpu_book)  # here, it simulates
    assert before == simulator_digest("gpu", recorded_on_gpus)
    (gpu_book / "cudasim" / "cards.py").write_text("")
    assert simulator_digest("gpu", gpu_book) != before


def test_make_book_executes_every_local_runner_and_no_other(small_book):
    specification = json.loads((small_book / "kernels" / "cpu" / "kernel.json").read_text())
    environment = specification["env"] | {"PLACE": "elsewhere"}
    copy_kernel(small_book, "cpu", "other", env=environment)
    copy_kernel(small_book, "cpu", "gpu")
    edit(small_book, "second", "sum", "import os\nos.environ.get('PLACE', 'here')")
    run = run_tool(small_book, "book")
    assert run.returncode == 0, run.stderr
    told = [f"{runner}: executing first, second" for runner in ("cpu", "other")]
    assert run.stdout.splitlines() == [*told, "site"]
    assert sorted(path.name for path in (small_book / "outputs").iterdir()) == ["cpu", "other"]
    printed = {
        runner: read(outputs_path("second", runner, small_book)).cells[0].outputs[0].data
        for runner in ("cpu", "other")
    }
    assert [data["text/plain"] for data in printed.values()] == ["'here'", "'elsewhere'"]


# Recording on GPUs.


@pytest.mark.parametrize("name", ["first", "second"])
def test_outputs_of_gpus_lie_under_the_name_of_the_card_and_say_where_they_were_made(
    recorded_on_gpus, name
):
    outputs = read_outputs(name, CARD, recorded_on_gpus)
    facts = outputs.metadata.provenance
    assert (facts.runner, facts.card, facts.chapter) == ("gpu", "2 x Simulated GPU (T4)", name)
    assert facts.hardware == "Simulated GPU (T4), Simulated GPU (T4)"
    assert facts.host and facts.driver == "0.0.0" and "cuda" in facts
    assert facts.versions.torch == torch.__version__
    assert datetime.date.fromisoformat(facts.date) <= datetime.datetime.now(datetime.UTC).date()
    assert {each.id: each.metadata.key for each in outputs.cells} == cell_keys(
        read_chapter(name, recorded_on_gpus)
    )
    assert sorted(path.name for path in (recorded_on_gpus / "outputs").iterdir()) == [CARD, "cpu"]


def test_the_page_shows_a_tab_by_card(recorded_on_gpus):
    cells = chapter_page("first", recorded_on_gpus).cells
    cpu, card = [each for each in cells if "runner" in each.metadata]
    assert cpu.metadata.runner["label"] == "No GPU"
    assert cpu.outputs[-1].data["text/plain"] == "device(type='cpu')"
    assert card.metadata.runner["label"] == "2 x Simulated GPU (T4)"
    assert card.outputs[-1].data["text/plain"] == "device(type='cuda', index=0)"
    for fact in ("Simulated GPU (T4), Simulated GPU (T4)", torch.__version__, "driver 0.0.0"):
        assert fact in card.metadata.runner["facts"]


def test_the_status_page_lists_the_card(recorded_on_gpus):
    rows = [row for row in chapters_table(recorded_on_gpus) if "2 x Simulated GPU (T4)" in row]
    assert ["first" in row for row in rows] == [True, False]
    assert all("driver 0.0.0" in row and "| none |" in row for row in rows)


def test_a_second_recording_of_a_card_is_not_made_unless_asked_for(gpu_book):
    before = contents(gpu_book / "outputs")
    run = run_tool(gpu_book, "record", "gpu")
    assert run.returncode == 0, run.stderr
    assert contents(gpu_book / "outputs") == before
    for name, line in zip(("first", "second"), run.stdout.splitlines(), strict=True):
        assert_one_line(line, f"outputs/{CARD}/{name}.ipynb: recorded on ", "and kept", "CHAPTERS=")


def test_a_chapter_that_is_named_is_recorded_again(gpu_book):
    before = contents(gpu_book / "outputs")
    run = run_tool(gpu_book, "record", "gpu", "second")
    assert (run.returncode, run.stdout) == (0, ""), run.stderr
    after = contents(gpu_book / "outputs")
    assert [path for path in before if before[path] != after[path]] == [
        outputs_path("second", CARD, gpu_book)
    ]


def test_an_interrupted_recording_leaves_the_earlier(gpu_book):
    before = contents(gpu_book / "outputs")
    started = gpu_book / "started"
    edit(
        gpu_book,
        "first",
        "make",
        f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(60)",
    )
    with (gpu_book / "stderr").open("w") as stderr:
        tool = start_tool(gpu_book, "record", "gpu", stderr=stderr)
    try:
        wait_until(started.exists)
        with pytest.raises(BookError) as error, one_at_a_time(gpu_book):
            pass
        assert_one_line(str(error.value), "_build/gpu.lock: another recording uses the GPUs")
        second = run_tool(gpu_book, "record", "gpu", "second")
        tool.send_signal(signal.SIGINT)
        tool.wait(timeout=15)
        left = kernels_of(gpu_book)
    finally:
        for process in [tool, *kernels_of(gpu_book)]:
            process.kill()
    assert (tool.returncode, left) == (130, [])
    assert contents(gpu_book / "outputs") == before
    assert second.returncode == 1
    assert_one_line(second.stderr, "error: _build/gpu.lock: another recording uses the GPUs")
    with one_at_a_time(gpu_book):  # what was interrupted holds nothing
        pass


def test_without_a_gpu_one_line_says_so_and_nothing_is_lost(recorded_book):
    copy_kernel(recorded_book, "cpu", "gpu")
    before = contents(recorded_book / "outputs")
    run = run_tool(recorded_book, "record", "gpu")
    assert (run.returncode, run.stdout) == (1, "")
    assert_one_line(run.stderr, "error: kernels/gpu/kernel.json: no GPU that this torch can use")
    assert contents(recorded_book / "outputs") == before


@pytest.mark.parametrize("target", ["record RUNNER=gpu", "gpu-test"])
def test_on_gpus_no_environment_is_made_and_none_is_used(target):
    def plan(*words):
        run = subprocess.run(
            ["make", "-n", "--no-print-directory", *words], cwd=ROOT, capture_output=True, text=True
        )
        return run.stdout

    told = plan(*target.split(), "PYTHON=another-python")
    assert told.startswith("another-python -m tools ") and len(told.splitlines()) == 1
    assert ".venv" not in told and "environment" not in told
    assert ".venv" in plan("record", "RUNNER=cpu")
