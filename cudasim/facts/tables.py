"""The tables that pages include, drawn from recorded data or from the model."""

from collections.abc import Callable, Iterable

from facts import files, model_tables, recorded_tables

BEGIN, END = "<!-- suites -->\n", "<!-- end of suites -->"

TABLES: dict[str, Callable[[], list[str]]] = {
    "survey": recorded_tables.survey,
    "conformance": recorded_tables.conformance,
    "suites": recorded_tables.suites,
    "support": recorded_tables.support,
    "fidelity": recorded_tables.fidelity,
    "timings": model_tables.timings,
    "cards": model_tables.cards,
    "scaling": model_tables.scaling,
}


def write(names: Iterable[str]) -> None:
    """Draw these tables. Raises FactsError."""
    for name in names:
        files.replace(files.FOLDER / f"{name}.md", draw(name))
        if name == "suites":
            page = files.PROJECTS_PAGE.read_text(encoding="utf-8")
            files.replace(files.PROJECTS_PAGE, with_suites(page))


def draw(name: str) -> str:
    """Return the Markdown of one of TABLES."""
    return "\n".join(TABLES[name]()).strip("\n") + "\n"


def with_suites(readme: str) -> str:
    """Return the page with the table of other projects' tests between its marks."""
    head, rest = readme.split(BEGIN)
    tail = rest[rest.index(END) :]
    return f"{head}{BEGIN}{draw('suites')}\n{tail}"
