"""Print what `cudasim` models, as JSON: a program that `tools.site.models` runs.

It reads from standard input for which settings to ask. It runs in a process of its own
because no module of these tools imports the simulator.
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


def main() -> None:
    question = json.load(sys.stdin)
    answer = {
        "cards": [described(name) for name in sheet_names()],
        "links": {place: link_facts(place) for place in PLACES},
        "shares": [
            linear_shares(setting, question) for setting in question["settings"]
        ],
        "sizes": {name: size for name, size in vars(sizes).items() if name.isupper()},
    }
    print(json.dumps(answer))


def link_facts(place: str) -> list[dict[str, Any]]:
    facts = []
    for id, link in links(place).items():
        speed = {"latency": link.latency, "bandwidth": link.bandwidth}
        facts.append({"id": id, "name": link.name} | speed)
    return facts


def linear_shares(
    setting: dict[str, Any], question: dict[str, Any]
) -> list[list[float]]:
    """Return the shares of linear scaling, at most and at least, by number of GPUs."""
    training = Training(question["step"], question["gradients"])
    inside = links("inside")[setting["inside"]]
    between = links("between")[setting["between"]]
    shares = []
    for gpus in question["counts"]:
        cluster = Cluster(gpus, question["server"], inside, between, setting["cards"])
        most = efficiency(training, cluster)
        least = least_efficiency(training, cluster)
        shares.append([most, least])
    return shares


if __name__ == "__main__":
    main()
