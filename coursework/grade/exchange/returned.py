"""Feedback as Canvas and Moodle take it back: a zip whose names say whose page is whose.

- Canvas, *Re-upload submissions*: named as the submission was, and given to the student under the
  name of their file, so a notebook as theirs was. See `infer_comment_context_from_filename` in
  app/models/assignment.rb of https://github.com/instructure/canvas-lms.
- Moodle, *Upload multiple feedback files in a zip*: any file in a folder named as that of the
  submission. See mod/assign/feedback/file/importziplib.php of https://github.com/moodle/moodle.
"""

import re
from collections.abc import Iterable

from nbformat.v4 import new_markdown_cell, new_notebook

from tools.book.notebooks import notebook_text
from tools.files import zipped

CANVAS = re.compile(r".*\(Canvas \w+\)", re.S)
MOODLE = re.compile(
    r"(?:.*/)?(?P<folder>[^/]+_\d+_assignsubmission_[a-z]+)(?:[_/].*)?", re.S
)
BODY = re.compile(r"<body>\n(?P<text>.*)</body>", re.S)


def returned(pages: Iterable[tuple[dict, str]]) -> dict[str, bytes]:
    """The zips to upload, by name, of each result and its page."""
    canvas, moodle = {}, {}
    for result, page in pages:
        path = result.get("path", "")
        if match := MOODLE.fullmatch(path):
            moodle[f"{match['folder']}_/feedback.html"] = page.encode()
        elif CANVAS.fullmatch(result["student"]):
            name = path.rpartition("/")[2]
            cell = new_markdown_cell(BODY.search(page)["text"], id="feedback")
            data = notebook_text(new_notebook(cells=[cell])).encode()
            canvas[name] = (
                zipped({"feedback.ipynb": data}) if name.endswith(".zip") else data
            )
    zips = {"feedback-canvas.zip": canvas, "feedback-moodle.zip": moodle}
    return {name: zipped(files) for name, files in zips.items() if files}
