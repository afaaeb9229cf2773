"""What runs inside: the agent, and how it is shut in. Knows nothing of the book or of tests.

Imported by a Python of its own (`sandbox/helper.py`), never by the judge, with the standard
library, PyTorch, IPython, cudasim and pyseccomp alone.
"""

DISK = 64  # MiB that a session may write
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
