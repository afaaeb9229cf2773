"""The scaling model against published measurements.

The rows are in `cudasim/timing/scaling.json`: training on several GPUs, in samples a second, and
all-reduces, in seconds. A ratio is modelled over published speed: above one, the model is too
fast. No constant of the model was chosen for a row of training.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cudasim import timing
from cudasim.timing.scaling import Cluster, all_reduce_seconds, links
from facts.training import Training, step_of

PATH = Path(timing.__file__).parent / "scaling.json"


@dataclass(frozen=True)
class Row:
    """One measurement with what the model says of it.

    Of training, `published` and `modelled` are shares of linear scaling, and `bare` is the modelled
    one if nothing were hidden; of an all-reduce they are bytes a second.
    """

    id: str
    published: float
    modelled: float
    bare: float

    @property
    def ratio(self) -> float:
        """Modelled over published speed."""
        return self.modelled / self.published


def read(path: Path = PATH) -> list[dict[str, Any]]:
    """Return the measurements as they are in the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def row_of(measurement: dict[str, Any]) -> Row:
    """Return a measurement, modelled. Raises KeyError for a link that is unknown."""
    cluster = cluster_of(measurement)
    if measurement["kind"] == "all_reduce":
        size = measurement["size"]
        speed = size / all_reduce_seconds(size, cluster)
        return Row(measurement["id"], size / measurement["figure"], speed, speed)

    # The figures are samples a second: of one GPU, and of all.
    alone = measurement["batch"] / measurement["one"]
    modelled = step_of(Training(alone, measurement["gradients"]), cluster)
    published = measurement["figure"] / measurement["one"] / measurement["gpus"]
    bare = alone / (alone + modelled.communication)
    return Row(measurement["id"], published, alone / modelled.step, bare)


def cluster_of(measurement: dict[str, Any]) -> Cluster:
    """Return the GPUs of a measurement and what joins them."""
    inside = links("inside")[measurement["inside"]]
    between = None
    if measurement["between"]:
        between = links("between")[measurement["between"]]
    gpus, server = measurement["gpus"], measurement["server"]
    return Cluster(gpus, server, inside, between, measurement["cards"])
