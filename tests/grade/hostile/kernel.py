"""Asking the kernel for what a notebook has no need of."""

from hostile import Attack

ATTACKS = [
    Attack(
        "mounts",
        """
attempt(lambda: syscall(165, 40, b'none', b'/tmp', b'tmpfs', 0, None))
attempt(lambda: syscall(165, 40, b'proc', b'/tmp', b'proc', 0, None))
attempt(lambda: syscall(166, 39, b'/tmp', 2))
attempt(lambda: syscall(428, 428, -100, b'/', 1))
attempt(lambda: syscall(430, 430, b'tmpfs', 0))
attempt(lambda: syscall(442, 442, -100, b'/', 0, (ctypes.c_uint64 * 4)(0, 1), 32))
""",
    ),
    Attack(
        "leaves its root",
        """
attempt(lambda: os.mkdir('root') or os.chroot('root') or 1)
attempt(lambda: syscall(155, 41, b'.', b'.'))
def climb():
    os.chdir('/')
    for _ in range(40):
        os.chdir('..')
    return open(canary[1:]).read()
attempt(climb)
os.chdir(tempfile.gettempdir())
""",
    ),
    Attack(
        "makes namespaces",
        """
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x2000000, 0x4000000, 0x8000000, 0x80):
    attempt(lambda: syscall(272, 97, flag))
    attempt(lambda: syscall(308, 268, 3, flag))
for kind in ('mnt', 'pid', 'net', 'user'):
    attempt(lambda: os.open(f'/proc/1/ns/{kind}', 0))
""",
    ),
    Attack(
        "becomes somebody else",
        """
for become in (os.setuid, os.setgid, os.seteuid, os.setegid):
    for who in (0, 1, 1000, 65534):
        attempt(lambda: become(who) or 1)
attempt(lambda: os.setgroups([0]) or 1)
attempt(lambda: os.setresuid(0, 0, 0) or 1)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
every = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
attempt(lambda: syscall(126, 91, header, every))
attempt(lambda: os.chown('.', 0, 0) or 1)
attempt(lambda: os.setxattr('.', 'security.capability', b'x') or 1)
""",
    ),
    Attack(
        "opens files by their handles",
        """
handle, place = ctypes.create_string_buffer(struct.pack('Ii', 120, 0), 128), ctypes.c_int()
attempt(lambda: syscall(303, 264, -100, b'/', handle, ctypes.byref(place), 0))
two = struct.pack('IiQ', 8, 1, 2)
attempt(lambda: syscall(304, 265, 0, ctypes.create_string_buffer(two), 0))
""",
    ),
    Attack(
        "reads and leaves keys",
        """
attempt(lambda: syscall(248, 217, b'user', b'hostile', b'x', 1, -3))
attempt(lambda: syscall(249, 218, b'user', b'hostile', None, -3))
for request in (0, 1, 6, 11):
    attempt(lambda: syscall(250, 219, request, -3, 0, 0, 0))
""",
    ),
    Attack(
        "loads programs into the kernel",
        """
attributes = ctypes.create_string_buffer(128)
attempt(lambda: syscall(321, 280, 0, attributes, 128))
attempt(lambda: syscall(298, 241, attributes, 0, -1, -1, 0))
attempt(lambda: syscall(323, 282, 1))
attempt(lambda: syscall(313, 273, 0, b'', 0))
attempt(lambda: syscall(175, 105, attributes, 128, b''))
attempt(lambda: syscall(246, 104, 0, 0, None, 0))
attempt(lambda: syscall(169, 142, 0xfee1dead, 672274793, 0x1234567, 0))
attempt(lambda: syscall(170, 161, b'hostile', 7))
attempt(lambda: syscall(164, 170, (ctypes.c_long * 2)(0, 0), None))
attempt(lambda: syscall(103, 116, 3, attributes, 128))
""",
    ),
    Attack(
        "loosens its own filter",
        """
attempt(lambda: syscall(317, 277, 1, 0, ctypes.create_string_buffer(16)))
attempt(lambda: syscall(157, 167, 22, 0, 0, 0, 0))
attempt(lambda: syscall(157, 167, 38, 0, 0, 0, 0))
attempt(lambda: syscall(135, 92, 0x0040000))
attempt(lambda: syscall(444, 444, None, 0, 1))
""",
    ),
    Attack(
        "shares memory by name",
        """
attempt(lambda: syscall(29, 194, 0x1234, 4096, 0o1666))
attempt(lambda: syscall(30, 196, 0, None, 0))
attempt(lambda: syscall(68, 186, 0x1234, 0o1666))
attempt(lambda: syscall(64, 190, 0x1234, 1, 0o1666))
attempt(lambda: syscall(240, 180, b'hostile', 0o102, 0o666, None))
attempt(lambda: os.memfd_create('hostile'))
from multiprocessing import shared_memory
attempt(lambda: shared_memory.SharedMemory('hostile', create=True, size=4096))
""",
    ),
    Attack(
        "makes calls of a 32-bit program",
        """
if x86:  # mov eax, 2 (fork); int 0x80; ret
    code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
    code.write(b'\\xb8\\x02\\x00\\x00\\x00\\xcd\\x80\\xc3')
    attempt(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code))))
else:
    os._exit(1)
""",
        ends=("crash",),
    ),
    Attack(
        "makes calls of the ABI called x32",
        """
attempt(lambda: syscall(57 | 0x40000000, 1000, 0) or os._exit(0))
attempt(lambda: syscall(41 | 0x40000000, 1000, 2, 1, 0))
""",
        ends=("crash", ""),
    ),
    Attack(
        "takes over page faults",
        """
attempt(lambda: syscall(323, 282, 0))
attempt(lambda: syscall(447, 447, 0))
attempt(lambda: syscall(425, 425, 1, ctypes.create_string_buffer(120)))
attempt(lambda: syscall(300, 262, 0, 0))
""",
    ),
]
