"""Print what `cudasim` models, as JSON: a program that `tools.site.models` runs.

It reads from standard input what to ask. It runs in a process of its own because no
module of these tools imports the simulator.
"""

import json
import sys
from typing import Any

from cudasim.device import sizes
from cudasim.timing.scaling import Cluster, links
from cudasim.timing.sheets import sheet_names
from facts.cards import described
from facts.training import Training, efficiency, least_efficiency

PLACES = ("inside", "between")  # servers
# Sizes of the caching allocator that the page script of `moved.js` computes with.
SIZES = ("BLOCK", "SMALL", "SMALL_SEGMENT", "LARGE_SEGMENT", "HUGE", "ROUNDING")


def main() -> None:
    question = json.load(sys.stdin)
    interconnects = question["interconnects"]
    answer = {
        "cards": [described(name) for name in sheet_names()],
        "links": {place: link_facts(place) for place in PLACES},
        "shares": [linear_shares(question, joined) for joined in interconnects],
        "sizes": {name: getattr(sizes, name) for name in SIZES},
    }
    print(json.dumps(answer))


def link_facts(place: str) -> list[dict[str, Any]]:
    facts = []
    for id, link in links(place).items():
        facts.append(
            {
                "id": id,
                "name": link.name,
                "latency": link.latency,
                "bandwidth": link.bandwidth,
            }
        )
    return facts


def linear_shares(
    question: dict[str, Any], joined: dict[str, Any]
) -> list[list[float]]:
    """Return the shares of linear scaling, at most and at least, by number of GPUs.

    `joined` is the Interconnect of the GPUs.
    """
    training = Training(question["step"], question["gradients"])
    inside = links("inside")[joined["inside"]]
    between = links("between")[joined["between"]]
    shares = []
    for gpus in question["counts"]:
        cluster = Cluster(gpus, question["server"], inside, between, joined["cards"])
        most = efficiency(training, cluster)
        least = least_efficiency(training, cluster)
        shares.append([most, least])
    return shares


if __name__ == "__main__":
    main()
