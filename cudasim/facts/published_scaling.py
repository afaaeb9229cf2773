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
    """The rows as they are in the file."""
    return json.loads(path.read_text(encoding="utf-8"))


def row_of(each: dict[str, Any]) -> Row:
    """A row of the file, modelled. Raises KeyError for a link that is unknown."""
    cluster = cluster_of(each)
    if each["kind"] == "all_reduce":
        speed = each["size"] / all_reduce_seconds(each["size"], cluster)
        return Row(each["id"], each["size"] / each["figure"], speed, speed)
    alone = each["batch"] / each["one"]
    found = step_of(Training(alone, each["gradients"]), cluster)
    published = each["figure"] / each["one"] / each["gpus"]
    bare = alone / (alone + found.communication)
    return Row(each["id"], published, alone / found.step, bare)


def cluster_of(each: dict[str, Any]) -> Cluster:
    """The GPUs of a row and what joins them."""
    between = each["between"] and links("between")[each["between"]]
    return Cluster(
        each["gpus"],
        each["server"],
        links("inside")[each["inside"]],
        between,
        each["cards"],
    )
