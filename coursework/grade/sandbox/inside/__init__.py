"""What runs inside: the agent, and how it is shut in. It knows nothing of the book or of tests.

It runs in a Python of its own, never in the judge's, with PyTorch, IPython, cudasim and
pyseccomp.
"""

DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
DISK = 64  # MiB of files that a session may have
THREADS = 64  # that it may have
NO_DATA = "no data"  # stands in place of the name of an error

# Why the record of a measurement is not whole.
ENDED = "the simulation was ended or begun again"
NOT_WHOLE = "the record of times or of memory is not whole"
HIDDEN = "operations were hidden from the simulation"
RUNNING = "a thread of the answer's was still running"
GAPS = (ENDED, NOT_WHOLE, HIDDEN, RUNNING)
