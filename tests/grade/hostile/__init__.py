"""Programs that a hostile student might hand in: each is a cell, run in every tier of sandbox.

A program knows more than any student would: `canary` is the path of a file that it should not
read, `outside` a folder that it should not see, `port` and `name` where somebody listens, and
`judge` the process that grades. It puts what it got into the list `loot`, and `attempt(...)`
calls a function and adds its value there, unless that is refused.

`ends` names how the session may end; where it is empty, the session goes on, and `loot` is
empty, too. A program with `alone` changes the Python that it runs in.
"""

import sys
from dataclasses import dataclass

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("students' cells are run on Linux only", allow_module_level=True)

KNOWN = """
import array, ast, asyncio, base64, builtins, ctypes, errno, fcntl, gc, glob, importlib, io
import inspect, json, mmap, os, pathlib, random, select, shutil, signal, socket, struct
import subprocess, sys, tempfile, threading, time, types, urllib.request
import numpy, torch
loot = []
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
real_open, real_write = open, os.write
x86 = os.uname().machine == 'x86_64'

def attempt(function, *arguments):
    try:
        got = function(*arguments)
    except BaseException:
        return None
    loot.append(repr(got)[:200])
    return got

def syscall(x86_64, aarch64, *arguments):
    number = x86_64 if x86 else aarch64
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    answer = libc.syscall(ctypes.c_long(number), *wide)
    if answer < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return answer

def pipes():
    'The pipe of replies, found as anybody finds it.'
    found = []
    for number in range(3, 64):
        try:
            flags = fcntl.fcntl(number, fcntl.F_GETFL)
        except OSError:
            continue
        if flags & os.O_ACCMODE == os.O_WRONLY:
            found.append(number)
    return found

def nonce():
    'The number of the open request, stolen from the agent.'
    for each in gc.get_objects():
        if type(each).__name__ == 'Agent':
            return each.nonce
"""


@dataclass(frozen=True)
class Attack:
    """One program."""

    name: str
    source: str
    ends: tuple[str, ...] = ()
    alone: bool = False
    seconds: float = 5


def attacks() -> list[Attack]:
    """All of them."""
    from hostile import channel, files, kernel, limits, network, processes, python

    modules = (files, network, processes, kernel, limits, channel, python)
    return [each for module in modules for each in module.ATTACKS]
