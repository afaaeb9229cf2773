"""Tables in Markdown, as the pages of facts show them."""


def table(head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = ()) -> list[str]:
    """The lines of a Markdown table; the columns in `numbers` are set flush right."""
    rules = ["--:" if column in numbers else ":--" for column in range(len(head))]
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, rules, *cells]]
