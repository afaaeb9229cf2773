"""`python -m tools COMMAND`: see `python -m tools --help`."""

import sys

import tools.cli  # noqa: F401  importing a module of commands registers them
from tools.commands import main

if __name__ == "__main__":
    sys.exit(main())
