"""Data sheets: what a card, and the host beside it, can do in a second.

Each figure has its source.
"""

import json
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "cards"
HOSTS = FOLDER.with_name("hosts")
USUAL_HOST = "colab"
OPTIONAL = ("host", "provenance", "sources")
TEXTS = ("name", *OPTIONAL)  # keys without a figure
# The tables of a sheet, and what each must hold.
PARTS = {
    "peak": ["float32"],
    "vector": ["float32"],
    "efficiency": ["memory", "matmul", "convolution", "attention"],
    "link": ["pinned_in", "pinned_out", "pageable_in", "pageable_out", "latency"],
    "peer": ["bandwidth", "staged", "latency"],
    "setup": ["matmul", "convolution", "attention", "reduction"],
    "guards": ["call", "tensor", "gradients"],
    "first": ["context", "library", "kernel"],
}


@dataclass(frozen=True, eq=False)  # by identity, so that what is worked out can be kept
class Sheet:
    """The figures of one card, in SI units: flop/s, bytes/s, seconds.

    Precisions are `float64`, `float32`, `tf32`, `float16`, `bfloat16` and `int8`, and
    their peaks are dense.
    """

    name: str
    # flop/s of products by precision, with tensor cores where the card uses them.
    peak: dict[str, float]
    # The same without tensor cores: what pointwise work can reach.
    vector: dict[str, float]
    bandwidth: float  # bytes/s of the card's memory
    processors: int  # streaming multiprocessors
    launch: float  # seconds of the host for a kernel, beyond the operation's call
    floor: float  # seconds that every kernel takes beside its work
    wait: float  # seconds from the end of a kernel until the host that waited goes on
    # The share that work reaches: of the bandwidth for `memory`, of the peak by precision
    # for `matmul`, `convolution` and `attention`.
    efficiency: dict[str, Any]
    # To the host: bytes/s by memory and direction, and `latency` in seconds.
    link: dict[str, float]
    # To a card of the same kind: bytes/s with access and staged, and `latency`.
    peer: dict[str, float]
    # The machine that the card is usually in: a file of `hosts`, or its figures.
    host: Any = USUAL_HOST
    # Where the figures are from, and whether the model was validated against the card.
    provenance: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # of the figures, by key


@dataclass(frozen=True, eq=False)
class Host:
    """The machine beside the card: what it computes, and what calls cost it, in SI units.

    A call of an operation costs `operation`, or `view`, and `setup` and `operand` beyond
    that. Where autograd calls it, it costs `python` less.
    """

    name: str
    operation: float  # seconds for PyTorch to be called and to return, without the work
    # Of these, the seconds for the line of Python, for its arguments and the result.
    python: float
    view: float  # the same for what launches nothing: a view, a question
    operand: float  # for each tensor in a list
    # For a kernel of a kind: matmul, convolution, attention, reduction.
    setup: dict[str, float]
    module: float  # for `nn.Module.__call__`, with the Python of a layer's `forward`
    backward: float  # for a run of autograd's engine
    node: float  # for each node of the graph that it meets; it was made before
    # For a `call` of compiled code, for each `tensor` that its guards check, and for
    # keeping what `gradients` need.
    guards: dict[str, float]
    step: float  # for a step of an optimizer
    parameter: float  # for each parameter in it
    peak: dict[str, float]  # flop/s by precision
    bandwidth: float  # bytes/s
    clock: float  # seconds for a reading of the clock
    loop: float  # seconds for one turn of a loop of timeit
    # Seconds for what is done once: `context` for a GPU, `library` for a kind of work,
    # `kernel` for an operator.
    first: dict[str, float]
    provenance: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


def read_sheet(path: Path) -> Sheet:
    """Return the sheet in a file of JSON.

    Raises ValueError, with the file and the key, for a key that is missing, unknown, or
    holds no positive figure.
    """
    return _make_sheet(path, Sheet, _read(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror.lower()}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not an object with the keys of a sheet")
    return content


def _make_sheet(path: Path, form: type, content: dict) -> Any:
    """Return a `form`, Sheet or Host, of what a file holds, after checking that."""
    known = [field.name for field in fields(form)]
    for key in known:
        if key not in content and key not in OPTIONAL:
            raise ValueError(f"{path}: {key} is missing")
    for key, value in content.items():
        if key not in known:
            keys = ", ".join(known)
            raise ValueError(f"{path}: {key} is unknown; a sheet has {keys}")
        if key not in TEXTS:
            _check(path, key, value)
    if isinstance(content.get("host"), dict):
        host = _make_sheet(path, Host, content["host"])
        content = content | {"host": host}
    return form(**content)


def _check(path: Path, key: str, value: object) -> None:
    if key not in PARTS:
        _check_figure(path, key, value)
        return
    _check_table(path, key, value, PARTS[key])
    for part, entry in value.items():
        if key == "efficiency" and part != "memory":
            _check_table(path, f"{key}.{part}", entry, PARTS["peak"])
            for precision, share in entry.items():
                _check_figure(path, f"{key}.{part}.{precision}", share)
        else:
            _check_figure(path, f"{key}.{part}", entry)


def _check_figure(path: Path, key: str, value: object) -> None:
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise ValueError(f"{path}: {key} is {value!r}, not a positive figure")


def _check_table(path: Path, key: str, value: object, parts: list[str]) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {key} is {value!r}, not a table of figures")
    for part in parts:
        if part not in value:
            raise ValueError(f"{path}: {key}.{part} is missing")


@cache
def find_sheet(name: str) -> Sheet:
    """Return the sheet of the card called `name`, or in the file of JSON with that path.

    Raises ValueError for an unknown name, and for a file with something wrong in it.
    """
    if name.endswith(".json"):
        return read_sheet(Path(name))
    sheets = _read_sheets()
    if name not in sheets:
        names = ", ".join(sheets)
        raise ValueError(f"card={name!r}: no data sheet; there are {names}")
    return sheets[name]


def sheet_names() -> list[str]:
    return list(_read_sheets())


def host_sheet(sheet: Sheet | None = None) -> Host:
    """Return the host beside a card, or the usual one. Raises ValueError if unknown."""
    host = sheet.host if sheet else USUAL_HOST
    if isinstance(host, Host):
        return host
    hosts = _read_hosts()
    if host not in hosts:
        names = ", ".join(hosts)
        raise ValueError(f"host={host!r}: no sheet; there are {names}")
    return hosts[host]


@cache
def _read_hosts() -> dict[str, Host]:
    paths = sorted(HOSTS.glob("*.json"))
    contents = {path.stem: _read(path) for path in paths}
    hosts = {}
    for path in paths:
        content = contents[path.stem]
        if "like" in content:
            content = _scale(contents[content["like"]], content)
        hosts[path.stem] = _make_sheet(path, Host, content)
    return hosts


def _scale(other: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return a host whose calls take `times` as long as another's; the rest is its own."""
    times = own["times"]
    content = {"first": other["first"]} | own
    content["sources"] = own["sources"] | {"first": other["sources"]["first"]}
    del content["like"], content["times"]
    reason = content["sources"].pop("times")

    for key, value in other.items():
        if key in content:
            continue
        if isinstance(value, dict):
            content[key] = {part: times * figure for part, figure in value.items()}
        else:
            content[key] = times * value
        source = f"that of {other['name']}, times {times:g}: {reason}"
        content["sources"][key] = source
    return content


@cache
def _read_sheets() -> dict[str, Sheet]:
    sheets = [read_sheet(path) for path in sorted(FOLDER.glob("*.json"))]
    return {sheet.name: sheet for sheet in sheets}
