"""Using more than there is."""

from hostile import Attack

ATTACKS = [
    Attack("loops without end", "while True: pass", ends=("time",), seconds=0.5),
    Attack(
        "loops without end, and will not be interrupted",
        """
def loop():
    while True:
        try:
            while True:
                sum(range(1000))
        except BaseException:
            pass
loop()
""",
        ends=("time",),
        seconds=0.5,
    ),
    Attack(
        "loops in compiled code",
        "import re; re.match('(a|a)*$', 'a' * 60 + 'b'); 10 ** 10 ** 9",
        ends=("time",),
        seconds=0.5,
    ),
    Attack("sleeps", "threading.Event().wait(1000)", ends=("time",), seconds=0.5),
    Attack(
        "sleeps in short breaths",
        "\nwhile True: select.select([], [], [], 0.001)",
        ends=("time",),
        seconds=0.5,
    ),
    Attack(
        "stops itself",
        "os.kill(os.getpid(), signal.SIGSTOP); select.select([], [], [], 100)",
        ends=("time",),
        seconds=0.5,
    ),
    Attack(
        "takes 10 GB",
        """
held = []
def take():
    while True:
        held.append(bytearray(1 << 26))
attempt(take)
loot += ['10 GB'] if len(held) > 40 else []
attempt(lambda: torch.ones(10 << 28).shape)
held.clear()
""",
    ),
    Attack(
        "takes 10 GB that are shared",
        """
attempt(lambda: mmap.mmap(-1, 10 << 30))
attempt(lambda: mmap.mmap(-1, 1 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, 3))
def mapped():
    file = open('shared', 'w+b')
    file.truncate(10 << 30)
    map = mmap.mmap(file.fileno(), 10 << 30)
    for at in range(0, 10 << 30, 4096):
        map[at] = 1
attempt(lambda: mapped() or 1)
attempt(lambda: torch.ones(10 << 20).share_memory_().shape)
""",
        ends=("", "disk", "memory", "crash"),
    ),
    Attack("prints without end", "while True: print('x' * 1000)", ends=("output",), seconds=20),
    Attack(
        "writes without end to its outputs",
        "while True:\n    real_write(1, b'x' * 65536); real_write(2, b'x' * 65536)",
        ends=("time",),
        seconds=0.5,
    ),
    Attack(
        "fills the disk with one file",
        """
def fill():
    with open('large', 'wb') as file:
        while True:
            file.write(b'x' * (1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(fill)
loot += ['filled'] if os.stat('large').st_size > 65 << 20 else []
os.unlink('large')
""",
        ends=("", "disk"),
    ),
    Attack(
        "fills the disk with many files",
        """
def fill():
    for number in range(100000):
        with open(f'large-{number}', 'wb') as file:
            file.write(b'x' * (1 << 22))
attempt(fill)
""",
        ends=("", "disk"),
        alone=True,
        seconds=10,
    ),
    Attack(
        "fills the disk with files that have no name",
        """
held = []
def fill():
    while True:
        file = open('hidden', 'w+b')
        file.write(b'x' * (1 << 24))
        file.flush()
        os.unlink('hidden')
        held.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE))
        file.close()
attempt(fill)
attempt(lambda: os.open('.', os.O_TMPFILE | os.O_RDWR))
loot += ['filled'] if len(held) > 5 else []
held.clear()
""",
        ends=("", "disk"),
        seconds=10,
    ),
    Attack(
        "makes files without end",
        """
for number in range(200000):
    os.close(os.open(f'empty-{number}', os.O_CREAT))
loot.append('200000 files')
""",
        ends=("", "disk", "time"),
        alone=True,
        seconds=10,
    ),
    Attack(
        "makes folders as deep as can be",
        """
def dig():
    for _ in range(3000):
        os.mkdir('deep')
        os.chdir('deep')
attempt(lambda: dig())
loot.clear()
os.chdir('/')
""",
        ends=("", "disk"),
        alone=True,
        seconds=10,
    ),
    Attack(
        "opens files without end",
        """
held = []
def take():
    while True:
        held.append(os.dup(0))
attempt(take)
loot += ['open'] if len(held) > 1000 else []
for each in held:
    os.close(each)
""",
    ),
    Attack("crashes", "ctypes.string_at(0)", ends=("crash",)),
    Attack(
        "crashes by depth",
        """
sys.setrecursionlimit(1 << 30)
def deeper(value):
    return sorted([value], key=deeper)
deeper(1)
""",
        ends=("crash", "memory", "time"),
        seconds=10,
    ),
    Attack("aborts", "os.abort()", ends=("crash",)),
    Attack("leaves", "os._exit(0)", ends=("crash",)),
    Attack("leaves politely", "sys.exit(0)"),
    Attack(
        "leaves by a signal",
        "os.kill(os.getpid(), signal.SIGKILL); os.kill(os.getpid(), signal.SIGSEGV); os._exit(1)",
        ends=("crash",),
    ),
    Attack(
        "leaves later",
        "signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0); select.select([], [], [], 3)",
        ends=("crash", ""),
        alone=True,
    ),
    Attack("closes all that is open", "os.closerange(0, 256)", ends=("crash",)),
    Attack(
        "has a value that takes forever to show",
        """
class Slow:
    def __repr__(self):
        while True:
            pass
Slow()
""",
        ends=("time",),
        seconds=0.5,
    ),
    Attack(
        "has a value as long as a book",
        """
class Long:
    def __repr__(self):
        return 'x' * (1 << 22)
Long()
""",
        ends=("output",),
    ),
]
