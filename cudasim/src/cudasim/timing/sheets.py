"""Data sheets: what a card, and the host beside it, can do in a second, each with its sources."""

import json
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "cards"
HOSTS = FOLDER.with_name("hosts")
WORDS = (
    "name",
    "host",
    "provenance",
    "sources",
)  # keys without a figure; a name must be
PARTS = {  # the tables of a sheet, with what each must hold
    "peak": ["float32"],
    "vector": ["float32"],
    "efficiency": ["memory", "matmul", "convolution", "attention"],
    "link": ["pinned_in", "pinned_out", "pageable_in", "pageable_out", "latency"],
    "peer": ["bandwidth", "staged", "latency"],
    "setup": ["matmul", "convolution", "attention", "reduction"],
    "first": ["context", "library", "kernel"],
}


@dataclass(frozen=True, eq=False)  # by identity, so that what is worked out can be kept
class Sheet:
    """The figures of one card, in SI units: flop/s, bytes/s, seconds. `peak` and `vector` are dense
    peaks by precision (`float64`, `float32`, `tf32`, `float16`, `bfloat16`, `int8`). `efficiency`
    is the share that work reaches: of the bandwidth for `memory`, of the peak by precision for
    `matmul`, `convolution` and `attention`. `provenance` says where the figures are from, and
    whether the model was validated against the card; `sources` says for each key where its figures
    are printed."""

    name: str
    peak: dict[
        str, float
    ]  # flop/s of products, with tensor cores where the card uses them
    vector: dict[
        str, float
    ]  # flop/s without tensor cores: what pointwise work can reach
    bandwidth: float  # bytes/s of the card's memory
    processors: int  # streaming multiprocessors
    launch: (
        float  # seconds of the host for one kernel, beyond the call of the operation
    )
    floor: float  # seconds that every kernel takes beside its work
    wait: float  # seconds from the end of a kernel to the next line of the host that waited
    efficiency: dict[str, Any]
    link: dict[
        str, float
    ]  # to the host: bytes/s by memory and direction; `latency` in seconds
    peer: dict[str, float]  # to a like card: bytes/s with access and staged; `latency`
    host: Any = (
        "colab"  # what the card is found beside: a file of `hosts`, or a host's figures
    )
    provenance: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Host:
    """The machine beside the card, in SI units: what it computes, and what calls cost it. A call of
    an operation costs `operation`, or `view`, and `setup` and `operand` beyond that; where autograd
    calls it, `python` less."""

    name: str
    operation: float  # seconds for PyTorch to be called and to return, without the work
    python: (
        float  # of these: the line of Python, the reading of its arguments, the result
    )
    view: float  # the same for what launches nothing: a view, a question
    operand: float  # for each tensor in a list
    setup: dict[
        str, float
    ]  # for a kernel of a kind: matmul, convolution, attention, reduction
    module: float  # for `nn.Module.__call__`, with the Python of a layer's `forward`
    backward: float  # for a run of autograd's engine
    node: float  # for each step of the graph that a run goes through, made before
    step: float  # for a step of an optimizer
    parameter: float  # for each parameter in it
    peak: dict[str, float]  # flop/s by precision
    bandwidth: float  # bytes/s
    clock: float  # seconds for a reading of the clock
    loop: float  # seconds for one turn of a loop of timeit
    first: dict[
        str, float
    ]  # seconds, once: `context` a GPU, `library`, `kernel` an operator
    provenance: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)


def read_sheet(path: Path) -> Sheet:
    """The sheet in a file of JSON. Raises ValueError, with the file and the key, for one that is
    missing, unknown, or holds no positive figure."""
    return _sheet(path, Sheet, _read(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror.lower()}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error})") from None
    if not isinstance(read, dict):
        raise ValueError(f"{path}: not an object with the keys of a sheet")
    return read


def _sheet(path: Path, form: type, read: dict) -> Any:
    known = [each.name for each in fields(form)]
    for key in known:
        if key not in read and key not in WORDS[1:]:
            raise ValueError(f"{path}: {key} is missing")
    for key, value in read.items():
        if key not in known:
            raise ValueError(
                f"{path}: {key} is unknown; a sheet has {', '.join(known)}"
            )
        if key not in WORDS:
            _check(path, key, value, PARTS.get(key))
    if isinstance(read.get("host"), dict):
        read["host"] = _sheet(path, Host, read["host"])
    return form(**read)


def _check(path: Path, key: str, value: object, parts: list[str] | None) -> None:
    if parts is None:
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ValueError(f"{path}: {key} is {value!r}, not a positive figure")
        return
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {key} is {value!r}, not a table of figures")
    for part in parts:
        if part not in value:
            raise ValueError(f"{path}: {key}.{part} is missing")
    for name, each in value.items():
        shares = key == "efficiency" and name != "memory"
        _check(path, f"{key}.{name}", each, PARTS["peak"] if shares else None)


@cache
def find_sheet(name: str) -> Sheet:
    """The sheet of the card called `name`, or in the file of JSON that `name` is the path of.
    Raises ValueError: for a name, with those there are; for a file, with what is wrong in it."""
    if name.endswith(".json"):
        return read_sheet(Path(name))
    if name not in _sheets():
        raise ValueError(
            f"card={name!r}: no data sheet; there are {', '.join(_sheets())}"
        )
    return _sheets()[name]


def sheet_names() -> list[str]:
    return list(_sheets())


def host_sheet(sheet: Sheet | None = None) -> Host:
    """The host beside a card; that of the usual card for None. Raises ValueError if unknown."""
    host = sheet.host if sheet else "colab"
    if isinstance(host, Host):
        return host
    if host not in _hosts():
        raise ValueError(f"host={host!r}: no sheet; there are {', '.join(_hosts())}")
    return _hosts()[host]


@cache
def _hosts() -> dict[str, Host]:
    read = {path: _read(path) for path in sorted(HOSTS.glob("*.json"))}
    for path, own in read.items():
        if "like" in own:
            read[path] = _like(read[path.with_name(f"{own.pop('like')}.json")], own)
    return {path.stem: _sheet(path, Host, found) for path, found in read.items()}


def _like(other: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """A host whose calls take `times` as long as another's; the rest is its own."""
    times, why = own.pop("times"), own["sources"].pop("times")
    own = {"first": other["first"]} | own
    for key, value in other.items():
        if key not in own:
            parts = value.items() if isinstance(value, dict) else ()
            own[key] = {kind: times * part for kind, part in parts} or times * value
            own["sources"][key] = f"that of {other['name']}, times {times:g}: {why}"
    own["sources"]["first"] = other["sources"]["first"]
    return own


@cache
def _sheets() -> dict[str, Sheet]:
    sheets = [read_sheet(path) for path in sorted(FOLDER.glob("*.json"))]
    return {sheet.name: sheet for sheet in sheets}
