"""What collectives take, by NCCL's own model (`src/graph/tuning.cc` of
https://github.com/NVIDIA/nccl): over a ring, 2 (n - 1) / n of the bytes of an all-reduce pass every
link, in 2 (n - 1) steps (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md); over
a tree between servers, twice the bytes pass at 0.9 of the bandwidth, in fewer steps. NCCL takes the
faster. `book/scaling.md` lists what is assumed; its calculator does the same in JavaScript."""

import json
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

from cudasim.timing.sheets import Sheet

PATH = Path(__file__).resolve().parent / "links.json"
TREE = 0.9  # of the bandwidth that a ring reaches, in NCCL's model


class Link(NamedTuple):
    """What joins two GPUs, or two servers: bytes/s one way, and seconds for each step."""

    name: str
    bandwidth: float
    latency: float


class Cluster(NamedTuple):
    """`gpus` GPUs, `server` in each server, joined `inside` a server and `between` servers. Each
    server has `cards` network cards."""

    gpus: int
    server: int
    inside: Link
    between: Link | None = None
    cards: int = 1


@cache
def _listed(where: str) -> list[tuple[dict, Link]]:
    """(what the file says, the link) of each one `inside` a server or `between` servers."""
    read = json.loads(PATH.read_text(encoding="utf-8"))[where]
    return [
        (it, Link(it["name"], it["line"] * it["share"], it["latency"])) for it in read
    ]


def links(where: str) -> dict[str, Link]:
    return {about["id"]: link for about, link in _listed(where)}


@cache
def card_link(sheet: Sheet) -> Link:
    """What joins GPUs of a kind in one server; of a card that no link names, its copies' link."""
    own = Link(
        f"{sheet.name} to {sheet.name}", sheet.peer["bandwidth"], sheet.peer["latency"]
    )
    return next(
        (link for about, link in _listed("inside") if sheet.name in about["cards"]), own
    )


def all_reduce_seconds(size: float, cluster: Cluster) -> float:
    """Seconds to add `size` bytes of each GPU up and to give each the sum. Raises ValueError for a
    cluster of no GPUs, or of several servers that nothing joins."""
    gpus, server, inside, between, cards = cluster
    if min(gpus, server, cards) < 1:
        raise ValueError(
            f"{gpus} GPUs, {server} a server, {cards} network cards: one at least"
        )
    if gpus == 1:
        return 0.0
    servers = ceil(gpus / server)
    if servers == 1:
        return 2 * (gpus - 1) * (size / gpus / inside.bandwidth + inside.latency)
    if between is None:
        raise ValueError(
            f"{gpus} GPUs with {server} a server need a link between servers"
        )
    bandwidth = between.bandwidth * cards
    if server > 1:
        bandwidth = min(bandwidth, inside.bandwidth)
    ring = 2 * (gpus - 1) * size / gpus / bandwidth
    ring += 2 * (gpus - servers) * inside.latency + 2 * (servers - 1) * between.latency
    tree = 2 * size / (TREE * bandwidth)
    depth = (servers - 1).bit_length()  # log2, rounded up
    tree += 2 * (server - 1) * inside.latency + 2 * depth * between.latency
    return min(ring, tree)


def collective_seconds(name: str, size: float, cluster: Cluster) -> float:
    """Seconds for another collective, of which `size` bytes are the whole on one GPU. `name` is
    all_reduce, barrier, all_gather, reduce_scatter, all_to_all, gather, scatter, broadcast or
    reduce. The bytes that pass each link are those of nccl-tests; the steps are those of a ring.
    Raises ValueError as `all_reduce_seconds`."""
    if name in ("all_reduce", "barrier"):
        return all_reduce_seconds(size, cluster)
    whole = all_reduce_seconds(0, cluster)  # the steps of a ring, there and back
    moved = all_reduce_seconds(size, cluster) - whole
    if name in ("broadcast", "reduce") and cluster.gpus > 1:
        moved *= cluster.gpus / (cluster.gpus - 1)  # all of it passes each link
    return (whole + moved) / 2
