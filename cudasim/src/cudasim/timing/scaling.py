"""How long collectives take, by NCCL's own model.

The model is in `src/graph/tuning.cc` of https://github.com/NVIDIA/nccl. Over a ring,
2 (n - 1) / n of the bytes of an all-reduce pass every link, in 2 (n - 1) steps
(https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md). Over a tree between
servers, twice the bytes pass at 0.9 of the bandwidth, in fewer steps. NCCL takes the
faster of the two. `book/scaling.md` lists what is assumed; its calculator does the same
in JavaScript.
"""

import json
from functools import cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

from cudasim.timing.sheets import Sheet

PATH = Path(__file__).resolve().parent / "links.json"
TREE = 0.9  # of the bandwidth that a ring reaches, in NCCL's model


class Link(NamedTuple):
    """What joins two GPUs, or two servers."""

    name: str
    bandwidth: float  # bytes/s one way
    latency: float  # seconds for each step


class Cluster(NamedTuple):
    """GPUs in servers."""

    gpus: int
    server: int  # GPUs in each server
    inside: Link  # joins the GPUs of a server
    between: Link | None = None  # joins the servers
    cards: int = 1  # network cards of each server


@cache
def _read_links(where: str) -> list[dict]:
    return json.loads(PATH.read_text(encoding="utf-8"))[where]


def _link(row: dict) -> Link:
    return Link(row["name"], row["line"] * row["share"], row["latency"])


def links(where: str) -> dict[str, Link]:
    """Return the links `inside` a server or `between` servers, by their id."""
    return {row["id"]: _link(row) for row in _read_links(where)}


@cache
def card_link(sheet: Sheet) -> Link:
    """Return what joins the cards of one kind in a server.

    If no link is listed for the card, it is the one that copies between cards take.
    """
    for row in _read_links("inside"):
        if sheet.name in row["cards"]:
            return _link(row)
    name = f"{sheet.name} to {sheet.name}"
    return Link(name, sheet.peer["bandwidth"], sheet.peer["latency"])


def all_reduce_seconds(size: float, cluster: Cluster) -> float:
    """Return the seconds to add `size` bytes of each GPU up, and to give each the sum.

    Raises ValueError for a cluster of no GPUs, or of several servers without a link.
    """
    gpus, server, inside, between, cards = cluster
    if min(gpus, server, cards) < 1:
        counts = f"{gpus} GPUs, {server} a server, {cards} network cards"
        raise ValueError(f"{counts}: one at least")
    if gpus == 1:
        return 0.0
    servers = ceil(gpus / server)
    if servers == 1:
        return 2 * (gpus - 1) * (size / gpus / inside.bandwidth + inside.latency)
    if between is None:
        counts = f"{gpus} GPUs with {server} a server"
        raise ValueError(f"{counts} need a link between servers")

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
    """Return the seconds for a collective, of which `size` bytes are the whole on one GPU.

    `name` is all_reduce, barrier, all_gather, reduce_scatter, all_to_all, gather,
    scatter, broadcast or reduce. The bytes that pass each link are those of nccl-tests;
    the steps are those of a ring. Raises ValueError as `all_reduce_seconds` does.
    """
    if name in ("all_reduce", "barrier"):
        return all_reduce_seconds(size, cluster)
    steps = all_reduce_seconds(0, cluster)  # of a ring, there and back
    transfer = all_reduce_seconds(size, cluster) - steps
    if name in ("broadcast", "reduce") and cluster.gpus > 1:
        transfer *= cluster.gpus / (cluster.gpus - 1)  # all of it passes each link
    return (steps + transfer) / 2
