"""Tests of a project that the plugin runs, with options and a `conftest.py` of the project."""

import os
import unittest
import warnings
from pathlib import Path

import pytest
import torch


@pytest.mark.parametrize("name", ["a::b", "c d"])
@pytest.mark.world(1, gpus=0)
def test_slow(rank, name, request):
    config = request.config
    assert Path("here.txt").read_text() == "here"  # where pytest was started
    assert config.getoption("--data").name == "some data"
    assert config.getini("greeting") == "hello"
    with pytest.raises(UserWarning):
        warnings.warn("an error here", stacklevel=1)


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.size = int(os.environ["WORLD_SIZE"])  # in the ranks only

    @pytest.mark.world(1)
    def test_size(self):
        self.assertEqual(self.size, 1)


@pytest.mark.world(1)
def test_a_failed_assertion_loses_the_gpu_of_its_process(rank, gpus):
    x = torch.ones(3, device="cuda")
    index = torch.tensor([7], device="cuda")
    with pytest.raises(torch.AcceleratorError, match="device-side assert"):
        x[index]


def test_the_others_have_it(gpus):
    assert torch.ones(3, device="cuda").sum() == 3
