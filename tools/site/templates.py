"""HTML that this site adds to its pages, from `book/templates/`, and the pages of slides."""

import json
from html import escape
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.root import ROOT
from tools.site.speech import punctuated, tr

LOADER = FileSystemLoader([ROOT / "book" / "templates", ROOT / "book" / "slides"])
TEMPLATES = Environment(loader=LOADER, undefined=StrictUndefined)
TEMPLATES.globals["tr"] = tr
TEMPLATES.filters |= {"e": escape, "punctuated": punctuated}
TEMPLATES.filters["script"] = lambda value: json.dumps(value).replace("<", "\\u003c")


def render(template: str, **context: Any) -> str:
    return TEMPLATES.get_template(template).render(context)
