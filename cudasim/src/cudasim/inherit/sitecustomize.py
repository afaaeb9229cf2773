"""Stands on PYTHONPATH of what a simulation starts, unless `startup_file` has put a file there. It
simulates what the environment requests, then gives way to the next `sitecustomize`, if any."""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
_root = os.path.dirname(os.path.dirname(_here))

if os.environ.get("CUDASIM_GPUS"):
    sys.path.insert(0, _root)
    import cudasim.startup

    sys.path.remove(_root)
    cudasim.startup.begin()

_this = sys.modules.pop("sitecustomize")
_path = sys.path[:]
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != _here]
try:
    import sitecustomize  # noqa: F401  (the next one)
except ModuleNotFoundError as error:
    if error.name != "sitecustomize":
        raise
finally:
    sys.path[:] = _path
    sys.modules.setdefault("sitecustomize", _this)
