"""The survey against PyTorch's own databases: a sample of it, and that it would notice."""

from types import SimpleNamespace

import pytest
import torch

import cudasim
from facts import survey

STRIDE = 13  # of about 790 operators and modules
# By a simulated Apple GPU: some samples need float64, or complex128.
REFUSED = (
    "TypeError: Cannot convert a MPS",
    "TypeError: Trying to convert ComplexDouble",
)


@pytest.fixture(scope="module")
def databases():
    """The databases with PyTorch's functions as a simulation has them."""
    with cudasim.simulate(force=True):
        return survey.load_databases()


@pytest.mark.parametrize(
    ("device", "first"),
    [("cuda:1", 2), pytest.param("mps:0", 0, marks=pytest.mark.full)],
)
def test_a_sample_of_the_survey_has_no_unexpected_failure(databases, device, first):
    assert set(survey.EXPECTED) <= set(databases["operator"])
    tasks = survey.choose(databases)[first::STRIDE]
    device_type, _, _ = device.partition(":")
    with cudasim.simulate(device_type=device_type):
        verdicts = [survey.survey_one(*task, databases, device) for task in tasks]

    for verdict in verdicts:
        if device_type == "mps" and verdict.reason.startswith(REFUSED):
            continue
        assert verdict.outcome != "failed", verdict
    figures = survey.summary(verdicts)
    assert figures["operator"]["passed"] > 30
    assert figures["module"]["passed"] > 0


class StandIn:
    """An operator that returns `result(input)` in place of the sine."""

    name, variant_test_name, supports_autograd = "sin", "", False

    def __init__(self, result):
        self.result = result

    def sample_inputs(self, device, dtype, requires_grad):
        ones = torch.ones(3, device=device, dtype=dtype)
        return [SimpleNamespace(input=ones, args=(), kwargs={})]

    def __call__(self, tensor):
        return self.result(tensor)


def survey_stand_in(result):
    """Return the verdict on an operator that returns `result(input)` on a GPU."""
    databases = {"operator": {"sin": StandIn(result)}, "module": {}}
    return survey.survey_one("operator", "sin", databases, "cuda:1")


def on_the_cpu(tensor):
    return tensor.cpu()


def on_the_other_gpu(tensor):
    return tensor.cuda(0)


def other_values(tensor):
    return tensor + tensor.is_cuda


def another_type(tensor):
    return tensor.double() if tensor.is_cuda else tensor


def another_shape(tensor):
    return tensor[:2] if tensor.is_cuda else tensor


def an_error(tensor):
    return tensor + torch.ones(3)


def test_the_survey_passes_what_is_right(two_gpus):
    verdict = survey_stand_in(lambda tensor: tensor + 1)
    assert verdict.outcome == "passed"


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (on_the_cpu, "result on cpu"),
        (on_the_other_gpu, "result on cuda:0"),
        (other_values, "not close"),
        (another_type, "torch.float64"),
        (another_shape, "torch.Size([2])"),
        (an_error, "at least two devices"),
    ],
)
def test_the_survey_notices(two_gpus, result, reason):
    verdict = survey_stand_in(result)
    assert verdict.outcome == "failed"
    assert reason in verdict.reason


@pytest.mark.full
def test_a_process_that_crashes_is_replaced():
    tasks = [("operator", "no such operator"), ("module", "nn.Tanh")]
    crashed, passed = survey.survey(tasks, processes=1, seconds=60)
    assert crashed.outcome == "failed"
    assert passed.outcome == "passed"


@pytest.mark.full
def test_a_process_that_is_late_has_failed():
    (late,) = survey.survey([("module", "nn.ReLU")], processes=1, seconds=0)
    assert late.outcome == "failed"
    assert late.reason == "took more than 0 s"
