"""What runs inside: the agent, and how it is shut in. Knows nothing of the book or of tests.

Imported by a Python of its own, never by the judge, with PyTorch, IPython, cudasim and pyseccomp.
"""

DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
DISK = 64  # MiB of files that a session may have
THREADS = 64  # that it may have
