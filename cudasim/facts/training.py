"""How data-parallel training scales: the step of one GPU, and the all-reduce that is not hidden.

Gradients are sent in buckets, as in DistributedDataParallel (Li et al., VLDB 2020): the all-reduce
of one bucket runs while the backward pass computes the next. `book/scaling.md` lists the
assumptions, and its calculator does the same in JavaScript.
"""

from typing import NamedTuple

from cudasim.timing.scaling import Cluster, all_reduce_seconds

# Bytes: `bucket_cap_mb` of DistributedDataParallel, and
# `torch.distributed._DEFAULT_FIRST_BUCKET_BYTES`.
BUCKET = 25 * 2**20
FIRST = 2**20
# The share of a step: two products for each product of the forward pass.
BACKWARD = 2 / 3
# The share of a step that is spent waiting for the slowest GPU. It is chosen so that published
# runs of DDP lie in the band.
WAITED = 0.07


class Training(NamedTuple):
    """A step of training on one GPU, in seconds, and the bytes of its gradients."""

    step: float
    gradients: float
    bucket: float = BUCKET


class Step(NamedTuple):
    """A step on several GPUs, in seconds: in total, on the links, and what is not hidden."""

    step: float
    communication: float
    exposed: float


def step_of(training: Training, cluster: Cluster) -> Step:
    """Return a step of data-parallel training. Raises ValueError as `all_reduce_seconds`."""
    step, gradients, bucket = training
    backward = BACKWARD * step
    sent = end = communication = 0.0
    size = min(FIRST, bucket)
    while sent < gradients:
        size = min(size, gradients - sent)
        sent += size
        seconds = all_reduce_seconds(size, cluster)
        ready = step - backward * (1 - sent / gradients)
        end = max(end, ready) + seconds
        communication += seconds
        size = bucket
    exposed = max(0.0, end - step)
    return Step(step + exposed, communication, exposed)


def efficiency(training: Training, cluster: Cluster) -> float:
    """Return the speed of each GPU as a share of the speed of one GPU alone: 1 is perfect."""
    return training.step / step_of(training, cluster).step


def least_efficiency(training: Training, cluster: Cluster) -> float:
    """Return the lower edge of the band: nothing is hidden, and all wait for the slowest."""
    seconds = training.step
    if cluster.gpus > 1:
        seconds += WAITED * training.step
    seconds += step_of(training, cluster).communication
    return training.step / seconds
