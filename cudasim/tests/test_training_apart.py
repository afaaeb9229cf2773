"""Training with a process for each simulated GPU: values, gradients and devices as on one."""

import pytest
from programs import run_script_as_ranks


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        ("train_replicas.py", 2),
        ("train_shards.py", 2),
        pytest.param("train_batch_norm.py", 2, marks=pytest.mark.full),
        pytest.param("train_two_gpus.py", 4, marks=pytest.mark.full),
        pytest.param("ranks_uneven.py", 2, marks=pytest.mark.full),
    ],
)
def test_two_ranks_do_what_one_process_does(tmp_path, script, gpus):
    for result in run_script_as_ranks(script, cwd=tmp_path, gpus=gpus):
        assert result.returncode == 0, result.stderr
