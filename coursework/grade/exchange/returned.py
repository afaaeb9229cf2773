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

from coursework.grade.results import Grade
from tools.book.notebooks import notebook_text
from tools.files import zipped

CANVAS = re.compile(r".*\(Canvas \w+\)", re.S)
MOODLE = re.compile(
    r"(?:.*/)?(?P<folder>[^/]+_\d+_assignsubmission_[a-z]+)(?:[_/].*)?", re.S
)
BODY = re.compile(r"<body>\n(?P<text>.*)</body>", re.S)


def returned(pages: Iterable[tuple[Grade, str]]) -> dict[str, bytes]:
    """Return the zips to upload, by name, of each grade and its page of feedback."""
    canvas = {}
    moodle = {}
    for grade, page in pages:
        if match := MOODLE.fullmatch(grade.path):
            moodle[f"{match['folder']}_/feedback.html"] = page.encode()
        elif CANVAS.fullmatch(grade.student):
            name = grade.path.rpartition("/")[2]
            canvas[name] = canvas_file(name, page)
    zips = {}
    if canvas:
        zips["feedback-canvas.zip"] = zipped(canvas)
    if moodle:
        zips["feedback-moodle.zip"] = zipped(moodle)
    return zips


def canvas_file(name: str, page: str) -> bytes:
    """Return a page of feedback as a notebook, in a zip if the submission was one."""
    cell = new_markdown_cell(BODY.search(page)["text"], id="feedback")
    notebook = notebook_text(new_notebook(cells=[cell])).encode()
    if name.endswith(".zip"):
        return zipped({"feedback.ipynb": notebook})
    return notebook
