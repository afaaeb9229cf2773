"""python run.py FRAMEWORK, in an environment of it: run the programs, and record what they say.

Nothing in outputs/operations/ is written by hand.
"""

import importlib
import inspect
import json
import platform
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUTS = HERE.parents[1] / "outputs" / "operations"


def simulate(name: str) -> None:
    """Two GPUs for those frameworks that can have simulated ones."""
    if name == "pytorch":
        importlib.import_module("cudasim").enable(gpus=2, force=True)
    elif name in ("jax", "tensorflow"):
        importlib.import_module(f"cudasim.{name}").enable(gpus=2)


def said(program: object, framework: object) -> dict[str, str]:
    """What a program answers: where its result is, or its error."""
    try:
        return {"answer": str(framework.place(program(*framework.arrays())))}
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return {"error": type(error).__name__, "message": re.sub(r" at 0x\w+", "", lines[0])}


def main() -> None:
    """Record one framework."""
    [name] = sys.argv[1:]
    rows = re.findall(r"^  (\w+):", (HERE / "rows.yml").read_text(encoding="utf-8"), re.M)
    simulate(name)
    framework = importlib.import_module(f"in_{name}")
    found = {}
    for row in rows:
        if hasattr(framework, row):
            program = getattr(framework, row)
            found[row] = {"program": inspect.getsource(program)} | said(program, framework)
    about = {
        "framework": name,
        "version": framework.VERSION,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "places": [str(framework.place(each)) for each in framework.arrays()],
    }
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps(about | {"rows": found}, indent=1, ensure_ascii=False) + "\n"
    (OUTPUTS / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"outputs/operations/{name}.json: {len(found)} rows of {len(rows)}")


if __name__ == "__main__":
    main()
