"""Two servers that share nothing but a slow link, which loses packets, train as one does."""

import re
import shutil
import subprocess
import sys

import pytest
from launch import HERE, TRAIN, epochs

LINK = HERE / "link.py"
OWN = "unshare", "--user", "--map-root-user", "--net"
DELAY, RATE, LOSS = 0.005, 20e6, 0.02  # seconds, bytes a second, share of the packets
TRY = "import os; os.open('/dev/net/tun', os.O_RDWR)"
AGENT = """
exec "$PYTHON" -m torch.distributed.run --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d \\
    --rdzv-endpoint 10.9.0.1:29500 --rdzv-conf is_host=$FIRST --local-addr $ADDRESS "$@"
"""


def why_not():
    """The reason why this machine makes no two servers; an empty text if it does."""
    for tool in ("unshare", "ip", "sh"):
        if not shutil.which(tool):
            return f"no '{tool}' on this machine"
    command = [*OWN, "python3", "-c", TRY]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = tried.stderr.strip().splitlines() or ["no reason given"]
    return f"no network namespaces or no TUN here: {lines[-1]}" if tried.returncode else ""


def test_two_servers_with_a_slow_link_that_loses_packets(job, undisturbed):
    if reason := why_not():
        pytest.skip(reason)
    run = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
    link = "python3", LINK, DELAY, RATE, LOSS
    command = *OWN, *link, "sh", "-c", AGENT, "agent", TRAIN
    job.start("-c", run, *command, server="b", GLOO_SOCKET_IFNAME="slow0", PYTHON=sys.executable)
    code, said = job.end("b")
    assert code == 0, said
    assert epochs(said) == undisturbed.epochs
    arrived, lost = map(int, re.search(r"carried (\d+) packets and lost (\d+)", said).groups())
    assert lost > 0 and arrived > 1000, "all that they said to each other went over the link"
    job.assert_gone()
