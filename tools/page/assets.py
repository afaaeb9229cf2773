"""Styles and scripts that only some pages need."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def load_where(app: "Sphinx", sign: str, *files: str) -> None:
    """Let each page in whose body `sign` stands load `files` of `book/static`."""

    def add(app: "Sphinx", page: str, template: str, context: dict[str, Any], _: Any) -> None:
        if sign in context.get("body", ""):
            for name in files:
                if name.endswith(".css"):
                    app.add_css_file(name)
                else:
                    app.add_js_file(name, loading_method="defer")

    app.connect("html-page-context", add)
