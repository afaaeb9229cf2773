"""The tables that pages include, drawn from recorded data or from the model."""

from collections.abc import Callable, Iterable

from facts import files, model_tables, recorded_tables

# The marks on the page of other projects' tests.
BEGIN = "<!-- suites -->\n"
END = "<!-- end of suites -->"

TABLES: dict[str, Callable[[], list[str]]] = {
    "survey": recorded_tables.survey,
    "conformance": recorded_tables.conformance,
    "suites": recorded_tables.suites,
    "support": recorded_tables.support,
    "bench": recorded_tables.bench,
    "fidelity": recorded_tables.fidelity,
    "timings": model_tables.timings,
    "cards": model_tables.cards,
    "scaling": model_tables.scaling,
}


def write(names: Iterable[str]) -> None:
    """Draw these tables. Raises FactsError."""
    for name in names:
        text = draw(name)
        files.replace(files.FOLDER / f"{name}.md", text)
        if name == "suites":
            page = files.PROJECTS_PAGE.read_text(encoding="utf-8")
            files.replace(files.PROJECTS_PAGE, with_suites(page))


def draw(name: str) -> str:
    """Return the Markdown of one of TABLES."""
    lines = TABLES[name]()
    text = "\n".join(lines).strip("\n")
    return f"{text}\n"


def with_suites(page: str) -> str:
    """Return the page with the table of other projects' tests between its marks."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    table = draw("suites")
    return f"{head}{BEGIN}{table}\n{END}{tail}"
