"""What the clean rooms tell at the end of a test run."""

from rooms import clear


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # once, not in each process of pytest-xdist
        clear()


def pytest_collection_modifyitems(items):
    """While one worker makes the room that all are copies of, the other asks indexes."""
    items.sort(
        key=lambda item: not item.name.startswith("test_chapter_runs[bare-computing")
    )


def pytest_terminal_summary(terminalreporter):
    """List what each room is made of, what it lacks, and what the set-up cells installed."""
    reports = [
        *terminalreporter.getreports("passed"),
        *terminalreporter.getreports("failed"),
    ]
    said = sorted({line for report in reports for line in report.user_properties})
    if said:
        terminalreporter.section("clean rooms")
        for name, text in said:
            terminalreporter.line(f"{name}: {text}")
