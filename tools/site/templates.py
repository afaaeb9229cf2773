"""HTML that this site adds to its pages, from `book/templates/`."""

from html import escape
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.root import ROOT

TEMPLATES = Environment(
    loader=FileSystemLoader(ROOT / "book" / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters["e"] = escape


def render(template: str, **context: Any) -> str:
    """A template, filled in."""
    return TEMPLATES.get_template(template).render(context)
