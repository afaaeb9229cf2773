"""`python -m tools COMMAND`: see `python -m tools --help`."""

import sys

# Importing a module of commands registers them.
import coursework.cli  # noqa: F401
import tools.cli  # noqa: F401
from tools.commands import main

if __name__ == "__main__":
    sys.exit(main())
