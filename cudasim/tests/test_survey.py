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
    with cudasim.simulate(device_type=device.partition(":")[0]):
        verdicts = [survey.survey_one(*task, databases, device) for task in tasks]
    failed = [verdict for verdict in verdicts if verdict.outcome == "failed"]
    if device == "mps:0":
        failed = [each for each in failed if not each.reason.startswith(REFUSED)]
    assert failed == []
    figures = survey.summary(verdicts)
    assert figures["operator"]["passed"] > 30 and figures["module"]["passed"]


class StandIn:
    """An operator that returns `result(input)` in place of the sine."""

    name, supports_autograd = "sin", False

    def __init__(self, result):
        self.result = result

    def sample_inputs(self, device, dtype, requires_grad):
        ones = torch.ones(3, device=device, dtype=dtype)
        return [SimpleNamespace(input=ones, args=(), kwargs={})]

    def __call__(self, tensor):
        return self.result(tensor)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda tensor: tensor + 1, ""),
        (lambda tensor: tensor.cpu(), "result on cpu"),
        (lambda tensor: tensor.cuda(0), "result on cuda:0"),
        (lambda tensor: tensor + tensor.is_cuda, "not close"),
        (lambda tensor: tensor.double() if tensor.is_cuda else tensor, "torch.float64"),
        (lambda tensor: tensor[:2] if tensor.is_cuda else tensor, "torch.Size([2])"),
        (lambda tensor: tensor + torch.ones(3), "at least two devices"),
    ],
)
def test_the_survey_notices(two_gpus, result, reason):
    databases = {"operator": {"sin": StandIn(result)}, "module": {}}
    verdict = survey.survey_one("operator", "sin", databases, "cuda:1")
    assert verdict.outcome == ("failed" if reason else "passed")
    assert reason in verdict.reason


@pytest.mark.full
def test_a_process_that_crashes_or_hangs_is_replaced():
    tasks = [("operator", "no such operator"), ("module", "nn.Tanh")]
    crashed, passed = survey.survey(tasks, processes=1, seconds=60)
    assert (crashed.outcome, passed.outcome) == ("failed", "passed")
    (late,) = survey.survey([("module", "nn.ReLU")], processes=1, seconds=0)
    assert late.outcome == "failed" and late.reason == "took more than 0 s"
