"""Styles and scripts that only some pages need."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def load_where(app: "Sphinx", sign: str, *files: str, defer: bool = False) -> None:
    """Let each page in whose body `sign` stands load `files` of `book/static`.

    A script that changes what is seen first must not wait: what is drawn before it would jump.
    The others may `defer`.
    """
    waits = {"loading_method": "defer"} if defer else {}

    def add(app: "Sphinx", page: str, template: str, context: dict[str, Any], _: Any) -> None:
        if sign in context.get("body", ""):
            for name in files:
                if name.endswith(".css"):
                    app.add_css_file(name)
                else:
                    app.add_js_file(name, **waits)

    app.connect("html-page-context", add)
