"""The book: everything that is read from its folder, once a command."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.book.chapters import Chapter, chapter_names, read_chapter, read_documents
from tools.book.recordings import Recording, read_recordings
from tools.book.repository import Repository, read_repository
from tools.book.runners import Runner, read_runners
from tools.errors import BookError
from tools.files import ROOT


@dataclass(frozen=True)
class Book:
    """The book in the folder `root`. What a command does not ask for is not read."""

    root: Path = field(default=ROOT)

    @cached_property
    def documents(self) -> list[str]:
        """Every page that `_toc.yml` lists, without its suffix, in order."""
        return read_documents(self.root)

    @cached_property
    def chapters(self) -> dict[str, Chapter]:
        """The chapters by name, in order, each followed by the same in other frameworks."""
        names = chapter_names(self.documents, self.root)
        return {name: read_chapter(name, self.root) for name in names}

    @property
    def english(self) -> "Book":
        """The book as it was written: this one, unless it is a translation."""
        return self

    def is_translated(self, document: str) -> bool:
        """Return whether a page is in the book's language; in English every page is."""
        return True

    @property
    def pages(self) -> dict[str, Chapter]:
        """The chapters that have a page, which holds the same in other frameworks, too."""
        chapters = self.chapters.items()
        return {
            name: chapter for name, chapter in chapters if chapter.page_name == name
        }

    def chapters_on(self, page_name: str) -> list[Chapter]:
        """Return a chapter and the same in other frameworks, which share its page."""
        chapters = self.chapters.values()
        return [chapter for chapter in chapters if chapter.page_name == page_name]

    @cached_property
    def runners(self) -> dict[str, Runner]:
        return read_runners(self.root)

    @property
    def portable_runners(self) -> list[Runner]:
        """The runners that need no GPU of the machine: all but the real GPUs."""
        runners = self.runners.values()
        return [runner for runner in runners if not runner.is_real_gpu]

    @cached_property
    def recordings(self) -> list[Recording]:
        """All recordings, in the order of the tabs and then of the chapters."""
        return read_recordings(self.root, self.chapters, self.runners)

    @cached_property
    def pins(self) -> dict[str, str]:
        """The version of each package that the book's own environment holds."""
        from tools.book.pins import read_pins  # here: the site needs none

        return read_pins(self.root)

    @cached_property
    def repository(self) -> Repository:
        return read_repository(self.root)

    def pins_of(self, runner: Runner) -> dict[str, str]:
        """Return the pins of the environment that a runner's kernel starts in."""
        if not runner.requirements:
            return self.pins
        from tools.book.pins import read_pins

        return read_pins(self.root, [runner.requirements])

    def runner(self, name: str) -> Runner:
        """Return the runner of this name, or raise BookError."""
        if name not in self.runners:
            known = ", ".join(self.runners)
            raise BookError(
                "kernels/", f"no runner '{name}'", f"choose one of: {known}"
            )
        return self.runners[name]

    def chapters_of(self, runner: Runner) -> list[Chapter]:
        """Return the chapters that a runner executes."""
        chapters = self.chapters.values()
        return [chapter for chapter in chapters if runner.executes(chapter)]

    def recordings_of(self, chapter: str) -> list[Recording]:
        """Return the recordings of a chapter, in the order of the tabs."""
        recordings = self.recordings
        return [
            recording for recording in recordings if recording.chapter.name == chapter
        ]

    def recording(self, folder: str, chapter: str) -> Recording | None:
        for recording in self.recordings_of(chapter):
            if recording.folder == folder:
                return recording
        return None

    def path(self, chapter: Chapter) -> str:
        """Return where the notebook lies that opens alone, in Colab and elsewhere."""
        return chapter.where

    def strays(self) -> list[str]:
        """Return the notebooks that `_toc.yml` lists in no framework."""
        names = {path.stem for path in (self.root / "notebooks").glob("*.ipynb")}
        unlisted = names - self.chapters.keys()
        return [f"notebooks/{name}" for name in sorted(unlisted)]
