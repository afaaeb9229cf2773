"""The versions of the clinic's script, `book/clinic/*.py`: what each of them takes.

Each version runs in a process of its own, on a simulated T4 and on a simulated H100, and
`book/clinic/measured.json` holds what was measured. Times are modelled, so the same file
comes out on every machine.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.book.runners import SIMULATOR, behaviour_of_simulator

FOLDER = Path("book/clinic")
MEASURED = FOLDER / "measured.json"
CARDS = ("T4", "H100")
# Runs in the process of a version: measures it, and prints JSON as its last line.
PROGRAM = """
import json, sys
import cudasim
path, card = sys.argv[1:]
cudasim.enable(gpus=2, card=card, clock='modelled')
from cudasim.lab import measure
script = {'__name__': 'script'}
exec(compile(open(path, encoding='utf-8').read(), path, 'exec'), script)
try:
    run = measure(script['train'], script['prepare'])
except Exception as error:
    answer = {'error': f'{type(error).__name__}: {error}'.splitlines()[0]}
else:
    answer = {'seconds': run.seconds, 'busy': run.busy, 'peak': run.peak}
    answer['timeline'] = run.timeline.payload()
print(json.dumps(answer))
"""


def script_paths(root: Path) -> list[Path]:
    """Return the versions of the script, the first one first."""
    paths = (root / FOLDER).glob("*.py")
    return sorted(paths, key=lambda path: int(path.name.partition("-")[0]))


def key(root: Path) -> str:
    """Return a text that changes with the scripts and with the simulator's behaviour."""
    behaviour = behaviour_of_simulator(root)
    digest = hashlib.sha256(f"behaviour {behaviour}\n".encode())
    for path in script_paths(root):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def measure_version(path: Path, card: str, root: Path) -> dict[str, Any]:
    """Run a version on simulated GPUs, and return what it takes or its error."""
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(root / SIMULATOR),
    }
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), card],
        stdout=subprocess.PIPE,  # what goes wrong is said on stderr
        text=True,
        env=environment,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def measure_versions(root: Path) -> dict[str, Any]:
    """Return what all versions take on all cards, with the key of their sources."""
    versions = {}
    for path in script_paths(root):
        by_card = {card: measure_version(path, card, root) for card in CARDS}
        for card in CARDS[1:]:
            by_card[card].pop("timeline", None)  # the page draws the first card's
        versions[path.stem] = by_card
        print(path.stem, flush=True)
    return {"key": key(root), "versions": versions}


def read_measured(root: Path) -> dict[str, Any]:
    """Return what `measure_versions` measured last."""
    return json.loads((root / MEASURED).read_text("utf-8"))


def write_measured(root: Path) -> None:
    text = json.dumps(measure_versions(root), indent=1)
    (root / MEASURED).write_text(text + "\n", "utf-8")
