"""Two servers in network namespaces of their own, with a slow link that loses packets between.

    python link.py DELAY RATE LOSS COMMAND [ARGUMENT ...]

runs the command in each of two namespaces, the addresses 10.9.0.1 and 10.9.0.2, and ends with
the larger of the exit codes. The command finds its address in ADDRESS and whether it is the
first in FIRST. Each namespace has one device, a TUN called `slow0`: what is sent into it comes
to this program, which passes it on into the other one after DELAY seconds and what RATE bytes a
second take, and loses the share LOSS of all packets. At the end
it prints how many it passed on and lost. (The kernel's own way, `tc netem` on a pair of veth,
needs a module that many kernels are built without.)

It needs Linux with /dev/net/tun, and the rights of root: `unshare --user --map-root-user --net`
gives those.
"""

import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import struct
import subprocess
import sys
import time

ADDRESSES = "10.9.0.1", "10.9.0.2"
NAME = "slow0"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
CLONE_NEWNET = 0x40000000  # linux/sched.h
LARGEST = 65536  # bytes of a packet
BEGIN = """
read moved
ip link set lo up && ip address add $ADDRESS/24 dev slow0 && ip link set slow0 up && exec "$@"
"""


def device() -> int:
    """A new TUN device; returns the file that its packets are read from and written to."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TUN | IFF_NO_PI))
    return file


def own_network() -> None:
    """Move this process into a new network namespace."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


def server(address: str, command: list[str]) -> tuple[subprocess.Popen, int]:
    """Start a command in a namespace of its own; its process, and our end of its device."""
    end = device()
    process = subprocess.Popen(
        ["sh", "-c", BEGIN, "sh", *command],
        stdin=subprocess.PIPE,
        env=dict(os.environ, ADDRESS=address, FIRST=str(int(address == ADDRESSES[0]))),
        preexec_fn=own_network,
    )
    subprocess.run(["ip", "link", "set", "dev", NAME, "netns", str(process.pid)], check=True)
    process.stdin.write(b"\n")
    process.stdin.close()
    return process, end


def carry(ends: list[int], delay: float, rate: float, loss: float, until: object) -> list[int]:
    """Pass packets between the two ends until `until()`; how many arrived, and how many did not."""
    chance, number, counts = random.Random(0), itertools.count(), [0, 0]
    free = dict.fromkeys(ends, 0.0)  # when each direction has sent what it was given
    there = dict(zip(ends, reversed(ends), strict=True))
    waiting: list[tuple[float, int, int, bytes]] = []
    while not until():
        pause = max(0, waiting[0][0] - time.monotonic()) if waiting else 0.1
        try:
            for end in select.select(ends, [], [], min(pause, 0.1))[0]:
                packet = os.read(end, LARGEST)
                lost = chance.random() < loss
                counts[lost] += 1
                if not lost:
                    free[end] = max(free[end], time.monotonic()) + len(packet) / rate
                    heapq.heappush(waiting, (free[end] + delay, next(number), there[end], packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, end, packet = heapq.heappop(waiting)
                os.write(end, packet)
        except OSError:  # a server has ended, and its device with it
            time.sleep(0.1)
    return counts


def main(delay: str, rate: str, loss: str, *command: str) -> int:
    """Run the command on both servers; returns the larger of their exit codes."""
    servers, ends = zip(*(server(address, [*command]) for address in ADDRESSES), strict=True)
    numbers = float(delay), float(rate), float(loss)
    arrived, lost = carry([*ends], *numbers, lambda: all(s.poll() is not None for s in servers))
    print(f"the link carried {arrived} packets and lost {lost}", flush=True)
    return max((server.returncode for server in servers), key=abs)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
