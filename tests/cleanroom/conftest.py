"""What the clean rooms tell at the end of a test run."""

from rooms import clear


def pytest_configure(config):
    # Once, not in each process of pytest-xdist.
    if not hasattr(config, "workerinput"):
        clear()


def pytest_collection_modifyitems(items):
    """While one worker makes the room that all are copies of, let the other ask indexes."""
    first = "test_chapter_runs[bare-computing"
    items.sort(key=lambda item: not item.name.startswith(first))


def pytest_terminal_summary(terminalreporter):
    """List what each room is made of, what it lacks, and what the setup cells installed."""
    reports = terminalreporter.getreports("passed")
    reports += terminalreporter.getreports("failed")
    lines = set()
    for report in reports:
        lines.update(report.user_properties)
    if lines:
        terminalreporter.section("clean rooms")
        for name, text in sorted(lines):
            terminalreporter.line(f"{name}: {text}")
