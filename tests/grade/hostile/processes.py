"""Starting processes, and harming those of others."""

from hostile import Attack

ATTACKS = [
    Attack(
        "forks without end",
        """
for _ in range(2000):
    attempt(lambda: os.fork() or os._exit(0))
    if loot:
        break
""",
    ),
    Attack(
        "starts programs",
        """
attempt(lambda: subprocess.run(['/bin/true']))
attempt(lambda: subprocess.check_output('id', shell=True))
attempt(lambda: os.popen('id').read() or 1 / 0)
attempt(lambda: os.system('exit 7') == 7 * 256 or 1 / 0)
attempt(lambda: os.posix_spawn('/bin/true', ['true'], {}))
attempt(lambda: get_ipython().getoutput('echo out')[0] == 'out' or 1 / 0)
""",
    ),
    Attack(
        "becomes another program",
        """
attempt(lambda: os.execv(sys.executable, ['python', '-c', 'while True: pass']))
attempt(lambda: os.execv('/bin/true', ['true']))
program = os.open(sys.executable, os.O_RDONLY) if os.path.exists(sys.executable) else 0
empty = (ctypes.c_char_p * 1)()
attempt(lambda: syscall(322, 281, program, b'', empty, empty, 0x1000))
loader = glob.glob('/lib*/ld-linux*')
attempt(lambda: os.execv(loader[0], [loader[0], '/bin/true']))
""",
    ),
    Attack(
        "clones itself by hand",
        """
def clone(flags):
    child = syscall(56, 220, flags, 0, 0, 0, 0)
    if not child:
        os._exit(0)
    return child
for flags in (17, 0, 0x4000 | 17, 0x10000000 | 17, 0x20000000 | 17, 0x8000 | 17):
    attempt(clone, flags)
def clone3():
    about = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
    child = syscall(435, 435, about, ctypes.sizeof(about))
    if not child:
        os._exit(0)
    return child
attempt(clone3)
if x86:
    attempt(lambda: syscall(57, 0) or os._exit(0))
""",
    ),
    Attack(
        "leaves a daemon",
        """
def daemon():
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(1000)
        os._exit(0)
    return 1
attempt(daemon)
import multiprocessing
for how in ('fork', 'spawn', 'forkserver'):
    process = multiprocessing.get_context(how).Process(target=time.sleep, args=(1000,))
    attempt(lambda: process.start() or 1)
""",
    ),
    Attack(
        "kills everybody",
        """
attempt(lambda: os.kill(-1, signal.SIGKILL) or 1)
attempt(lambda: os.kill(0, signal.SIGKILL) or 1)
attempt(lambda: os.killpg(os.getpgrp(), signal.SIGKILL) or 1)
attempt(lambda: os.kill(judge, signal.SIGKILL) or 1)
attempt(lambda: os.kill(os.getppid(), signal.SIGKILL) or 1)
for process in range(2, 3000):
    if process != os.getpid():
        attempt(lambda: os.kill(process, 0) or 1)
""",
    ),
    Attack(
        "kills by other means",
        """
about = ctypes.create_string_buffer(128)
for number in ((129, 138), (297, 240)):
    attempt(lambda: syscall(*number, judge, 9, about))
    attempt(lambda: syscall(*number, judge, judge, 9, about))
attempt(lambda: syscall(200, 130, judge, 9))
attempt(lambda: syscall(234, 131, judge, judge, 9))
attempt(lambda: os.pidfd_open(judge))
attempt(lambda: syscall(424, 424, 3, 9, None, 0))
""",
    ),
    Attack(
        "has the kernel send a signal",
        """
reads, writes = os.pipe()
def aim():
    fcntl.fcntl(reads, fcntl.F_SETOWN, judge)
    fcntl.fcntl(reads, 10, signal.SIGKILL)
    fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writes, b'x')
attempt(lambda: aim() or 1)
attempt(lambda: fcntl.ioctl(reads, 0x8901, struct.pack('i', judge)) or 1)
attempt(lambda: fcntl.fcntl(reads, 15, struct.pack('ii', 1, judge)))
fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
os.write(writes, b'x')
""",
    ),
    Attack(
        "changes the limits and priorities of the judge",
        """
import resource
attempt(lambda: resource.prlimit(judge, resource.RLIMIT_FSIZE, (0, 0)))
attempt(lambda: resource.prlimit(os.getppid() or judge, resource.RLIMIT_NOFILE))
attempt(lambda: os.setpriority(os.PRIO_PROCESS, judge, 19) or 1)
attempt(lambda: os.setpriority(os.PRIO_USER, 0, 19) or 1)
attempt(lambda: os.sched_setaffinity(judge, {0}) or 1)
attempt(lambda: os.nice(-5))
attempt(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40)) or 1)
attempt(lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1)) or 1)
""",
    ),
    Attack(
        "traces the judge",
        """
for request in (0x4206, 16):
    attempt(lambda: syscall(101, 117, request, judge, 0, 0))
    attempt(lambda: syscall(101, 117, request, os.getppid(), 0, 0))
attempt(lambda: syscall(101, 117, 0, 0, 0, 0))
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
for number in ((310, 270), (311, 271)):
    attempt(lambda: syscall(*number, judge, vector, 1, vector, 1, 0))
attempt(lambda: syscall(312, 272, judge, judge, 0, 0, 0))
attempt(lambda: syscall(438, 438, 3, 0, 0))
""",
    ),
    Attack(
        "outlives its killers",
        """
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
attempt(lambda: syscall(157, 167, 1, 0, 0, 0, 0))
attempt(lambda: syscall(157, 167, 36, 1, 0, 0, 0))
attempt(lambda: syscall(157, 167, 4, 0, 0, 0, 0))
attempt(lambda: os.setsid())
attempt(lambda: os.setpgid(0, 0) or 1)
""",
        alone=True,
    ),
    Attack(
        "hides in threads",
        """
def spin():
    while True:
        pass
for _ in range(8):
    threading.Thread(target=spin, daemon=True).start()
""",
        ends=("", "time"),
        alone=True,
        seconds=1,
    ),
    Attack(
        "makes threads without end",
        """
threading.stack_size(1 << 15)
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    except Exception:
        pass
""",
        ends=("memory", "time", "crash"),
        seconds=2,
    ),
]
