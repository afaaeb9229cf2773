"""Build the package `cudasim` (pyproject.toml says how); this file adds `cudasim.pth`.

Python reads `.pth` files at the root of site-packages only, where packages cannot put files.
"""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithStartup(build_py):
    """Builds what `packages` names, and `cudasim.pth` beside it."""

    def run(self) -> None:
        """Build, then copy; an editable install has no root to copy to."""
        super().run()
        if not self.editable_mode:
            self.copy_file("cudasim/cudasim.pth", f"{self.build_lib}/cudasim.pth")


setup(cmdclass={"build_py": BuildWithStartup})
