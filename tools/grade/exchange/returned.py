"""Feedback as Canvas and Moodle take it back: a zip whose names say whose page is whose.

- Canvas, *Re-upload submissions*: a file named as the submission was, found by the numbers in its
  name, and given to the student under the name of the file that they had handed in. So it is a
  notebook as theirs was. See https://github.com/instructure/canvas-lms, app/models/assignment.rb,
  `infer_comment_context_from_filename`.
- Moodle, *Upload multiple feedback files in a zip*: any file in a folder named as that of the
  submission. See https://github.com/moodle/moodle, mod/assign/feedback/file/importziplib.php.
"""

import re
from collections.abc import Iterable

from nbformat.v4 import new_markdown_cell, new_notebook

from tools.book.notebooks import notebook_text
from tools.exercises.archive import zipped

CANVAS = re.compile(r".*\(Canvas \w+\)", re.S)
MOODLE = re.compile(r"(?:.*/)?(?P<folder>[^/]+_\d+_assignsubmission_[a-z]+)(?:[_/].*)?", re.S)
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
            canvas[name] = zipped({"feedback.ipynb": data}) if name.endswith(".zip") else data
    zips = {"feedback-canvas.zip": canvas, "feedback-moodle.zip": moodle}
    return {name: zipped(files) for name, files in zips.items() if files}
