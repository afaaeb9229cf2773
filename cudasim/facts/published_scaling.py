"""The scaling model against published measurements.

The measurements are in `cudasim/timing/scaling.json`: training on several GPUs, in samples per
second, and all-reduces, in seconds. A ratio is modelled over published speed: above one, the
model is too fast. No constant of the model was chosen to match a measurement of training.
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
    """A measurement and what the model makes of it.

    For training, `published` and `modelled` are shares of linear scaling, and `bare` is the
    modelled share if no communication were hidden. For an all-reduce all are bytes per second.
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
        published = size / measurement["figure"]
        modelled = size / all_reduce_seconds(size, cluster)
        return Row(measurement["id"], published, modelled, bare=modelled)

    # The figures are samples per second: of one GPU, and of all.
    published = measurement["figure"] / measurement["one"] / measurement["gpus"]
    alone = measurement["batch"] / measurement["one"]
    training = Training(alone, measurement["gradients"])
    step = step_of(training, cluster)
    modelled = alone / step.step
    bare = alone / (alone + step.communication)
    return Row(measurement["id"], published, modelled, bare)


def cluster_of(measurement: dict[str, Any]) -> Cluster:
    """Return the GPUs of a measurement and what joins them."""
    inside = links("inside")[measurement["inside"]]
    between = None
    if measurement["between"]:
        between = links("between")[measurement["between"]]
    return Cluster(
        gpus=measurement["gpus"],
        server=measurement["server"],
        inside=inside,
        between=between,
        cards=measurement["cards"],
    )
