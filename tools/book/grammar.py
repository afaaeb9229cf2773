"""The grammar of chapters: by which ids, tags, types and words their parts are known.

Everything that writes, reads or checks a chapter takes these names from here. Style sheets,
templates and scripts in `book/` repeat some of them: MyST-NB turns the tag `moved` into the
class `tag_moved`.
"""

import re
from collections.abc import Sequence
from enum import StrEnum


class Kind(StrEnum):
    """The `kind` of a chapter in its metadata, which decides what rules it follows."""

    LESSON = "lesson"  # to be read from first to last; the default
    SYMPTOMS = "symptoms"
    PUZZLES = "puzzles"
    OUTCOMES = "outcomes"


# Tags of cells. A tag that is not among TAGS does nothing, so it must be a slip.
SETUP = "setup"  # gets a reader's machine ready; no key covers the cell
TIMES = "times"  # shows times: the page says below each output whose they are
PREDICTED = "predicted"  # answers a prediction: the page covers the output
MOVED = "moved"  # prints a table of which the page makes a figure
CHECKS = "checks"  # asserts what must be true: the page shows it on request only
MACHINERY = "hide-cell"  # teaches nothing: the page folds the cell
HIDDEN_CODE = "hide-input"  # only the code is folded
NOT_COMPARED = "nbval-ignore-output"  # the output differs between machines
TAGS = {
    SETUP,
    TIMES,
    PREDICTED,
    MOVED,
    CHECKS,
    MACHINERY,
    HIDDEN_CODE,
    NOT_COMPARED,
    # MyST-NB alone reads these.
    "hide-output",
    "remove-output",
}

# Ids of the cells that `python -m tools links` writes.
LINKS_CELL = "links"
SETUP_CELL = "setup"
SCRIPT_CELL = "clinic-script"  # a whole file of `book/clinic`, however long

# The first line of a folded cell: Colab shows what follows `# @title` in the cell's place.
TITLE = "# @title "
CHECKS_TITLE = f"{TITLE}Checks"
HELPERS_TITLE = f"{TITLE}Helper code"

# How the ids of other cells begin; a topic or a number follows.
QUESTION = "predict-"  # asks for a prediction
ANSWER = "answer-"  # explains the answer to a prediction, or holds that to an exercise
SELF_CHECK = "check-"
EXERCISE = "exercise-"
MOVE = "move-"  # a text under which the page has a figure to move

# The cells of exercise 3 are exercise-3, answer-3, shows-3, holds-3, holds-3-more, solution-3.
EXERCISE_PART = re.compile(
    r"(?P<part>exercise|answer|shows|holds|solution)-(?P<number>\d+)(-more)?"
)

# How the value of the last check of an exercise ends.
NO_ANSWER = "no answer yet"
HOLDS = "passed"

# What stands around the answer to a prediction: every notebook program folds it.
ANSWER_SUMMARY = "Show the answer"
ANSWER_FRAME = re.compile(
    r'<details class="answer">\n<summary>(?P<summary>[^<\n]*)</summary>\n\n'
    r"(?P<text>.*?)\n\n</details>\s*",
    re.DOTALL,
)

# How texts begin.
PREDICT = "**Predict.** "
CHOICES = ("The first.", "The second.", "The third.", "The fourth.")
DEEPER = "Deeper: "  # the heading of a section that is not on a chapter's path
EXERCISES = "Exercises"  # the heading at which the path ends
HOW_LONG = re.compile(
    r"^\*\*How long\.\*\* (\d+) minutes, plus the exercises\.$", re.MULTILINE
)

# Headings on the pages of symptoms and of outcomes, and the ids of what belongs to them.
GROUP = "## "
ENTRY = "### "
SYMPTOM_PARTS = ("shown", "cause", "cured")  # `name-shown` and so on, after `name`
OUTCOME_TITLE = "-title"  # how the id of an operation's heading ends
OUTCOMES_CELL = "operations"  # the text under which the table of outcomes stands

# Stands before every time that a chapter prints, and in every drawing of times.
ABOUT = "≈"

# The types of outputs that only the pages of this book draw.
TIMELINE = "application/vnd.cudasim.timeline+json"
# What each runner printed of a cell.
RUNNERS = "application/vnd.where-tensors-live.runners+json"


def answer_text(source: str) -> str | None:
    """Return what an answer's `<details>` hold, or None if it has none around it all."""
    framed = ANSWER_FRAME.fullmatch(source)
    return framed["text"] if framed else None


def framed_answer(text: str, summary: str = ANSWER_SUMMARY) -> str:
    """Return the source of an answer: its text in `<details>`."""
    return f'<details class="answer">\n<summary>{summary}</summary>\n\n{text}\n\n</details>'


def right_choice(answer: str, choices: Sequence[str] = CHOICES) -> int | None:
    """Return the index of the choice that the text of an answer names, or None."""
    answer = answer.removeprefix("**")
    for index, choice in enumerate(choices):
        if answer.startswith(choice):
            return index
    return None
