"""Programs that a hostile student might hand in, each a cell: a table, its header lines in `==`.

`== name | words`, then the source. Among the words: how the session may end (time, memory, disk,
output, crash, protocol), `on` if it may go on as well, `later` if it may end at a question only,
`alone` where the program changes the Python that it runs in, and the seconds that it has.
Without words the session goes on.

A program knows more than a student would: `canary` is the path of a file that it must not read,
`outside` a folder that it must not see, `port` and `name` are where somebody listens, and `judge`
is the process that grades. What it got is in `loot`, which must be empty: `attempt` calls a
function and adds its value there, unless that is refused, `calls` does so with system calls
(x86_64's number, aarch64's, arguments).
"""

import re
from dataclasses import dataclass

KNOWN = """
import array, ast, asyncio, base64, builtins, ctypes, errno, fcntl, gc, glob, importlib, io
import inspect, json, mmap, multiprocessing, os, pathlib, random, resource, select, shutil, signal
import socket, struct, subprocess, sys, tempfile, threading, time, types, urllib.request
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
    wide = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    answer = libc.syscall(ctypes.c_long(number), *wide)
    if answer < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return answer

def calls(*rows):
    for row in rows:
        attempt(syscall, *row)

def child(answer):
    'Of a fork: 0 is the child itself, which leaves.'
    return answer or os._exit(0)

def pipes():
    'The pipe of replies, found as anybody finds it.'
    for number in range(3, 64):
        try:
            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                yield number
        except OSError:
            pass

def agent():
    return next(found for found in gc.get_objects() if type(found).__name__ == 'Agent')

def forge(**content):
    'An answer with the number of the open request, stolen from the agent.'
    said = {'ok': True, 'error': None, 'shown': '', 'value': None}
    return json.dumps({'nonce': agent().nonce} | said | content).encode() + b'\\n'

def say(line, wait=0):
    for number in pipes():
        real_write(number, line)
    select.select([], [], [], wait)
"""

FILES = r"""
== reads a file
attempt(lambda: open(canary).read())
== reads a file, in disguise
w = base64.b64decode('b3Blbg==').decode()
f = getattr(__import__(bytes.fromhex('6275696c74696e73').decode()), w)
attempt(lambda: eval(compile("f(canary).read()", '', 'eval')))
classes = ().__class__.__base__.__subclasses__()
attempt(lambda: [c for c in classes if c.__name__ == 'FileIO'][0](canary).read())
== reads a file without Python
def read():
    number = libc.open(canary.encode(), 0)
    if number < 0:
        raise OSError
    buffer = ctypes.create_string_buffer(100)
    libc.read(number, buffer, 100)
    return buffer.value
attempt(read)
calls((257, 56, -100, canary.encode(), 0, 0),
      (437, 437, -100, canary.encode(), (ctypes.c_uint64 * 3)(), 24))
== reads a file through libraries
attempt(lambda: numpy.fromfile(canary, dtype='u1').tobytes())
attempt(lambda: torch.from_file(canary, size=4, dtype=torch.uint8).tolist())
attempt(lambda: numpy.memmap(canary, mode='r').tobytes())
attempt(lambda: urllib.request.urlopen('file://' + canary).read())
attempt(lambda: list(importlib.machinery.SourceFileLoader('x', canary).get_data(canary)))
attempt(lambda: get_ipython().find_user_code(canary))
== climbs out of its folder
up = '../' * 40
attempt(lambda: open(up + canary[1:]).read())
for root in ('/proc/self/root', '/proc/1/root', '/proc/self/cwd/' + up, f'/proc/{judge}/root',
             f'/proc/{judge}/cwd/' + up, '/proc/thread-self/root', '/proc/2/root'):
    attempt(lambda: open(root + canary).read())
    attempt(os.listdir, root + outside)
== opens folders by handles that were left open
for number in range(256):
    attempt(os.listdir, number)
    attempt(lambda: os.open(canary.lstrip('/'), os.O_RDONLY, dir_fd=number))
    attempt(lambda: open(f'/proc/self/fd/{number}/../../..' + canary).read())
== links to a file
for make in (os.symlink, os.link):
    attempt(lambda: make(canary, 'link') or open('link').read())
== looks around
for place in (outside, '/var', '/etc/ssh', '/srv', '/run', '/boot', '/dev/shm', '/var/tmp'):
    attempt(os.listdir, place)
    attempt(lambda: list(os.scandir(place)))
for place in ('/root', '/home', '/opt', '/proc', '/sys', '/autograder', '/'):
    attempt(open, place + '/hostile-written', 'w')
for file in ('/etc/passwd', '/etc/shadow', '/etc/hostname', '/etc/hosts'):
    attempt(lambda: open(file).read())
for pattern in ('/*/*/masters/*', '/*/masters/*'):
    attempt(lambda: glob.glob(pattern)[0])
== reads what the kernel says of processes
for who in ('self', '1', str(judge), str(os.getppid())):
    for what in ('environ', 'cmdline', 'maps', 'mem', 'status', 'mountinfo', 'fd', 'cgroup'):
        attempt(lambda: open(f'/proc/{who}/{what}', 'rb').read(1))
        attempt(os.listdir, f'/proc/{who}/{what}')
== searches its memory for secrets of the judge
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
words, at = [], 0
while environ[at]:
    words.append(environ[at])
    at += 1
words += [found for found in gc.get_objects() if type(found) is str]
words += [str(value) for module in list(sys.modules.values()) if module
          for value in vars(module).values() if type(value) in (str, bytes, dict)]
loot += [str(word)[:50] for word in words if ''.join(['HOSTILE', '_SECRET']) in str(word)]
== writes outside
target = outside + '/written'
attempt(open, target, 'w')
attempt(os.mkdir, target)
attempt(os.mkfifo, target)
attempt(torch.save, 1, target)
attempt(shutil.copy, os.__file__, target)
attempt(numpy.save, target, 1)
open('mine', 'w').write('x')
for move in (os.rename, os.link):
    attempt(move, 'mine', target)
attempt(os.truncate, canary, 0)
attempt(os.unlink, canary)
mode = lambda: os.stat(canary).st_mode & 0o777 or loot.append('closed')
attempt(lambda: os.chmod(canary, 0) or mode() and 1 / 0)
attempt(lambda: os.chmod(os.open(os.__file__, os.O_RDONLY), 0) or 1 / 0)
attempt(lambda: os.utime(canary, (0, 0)) or os.stat(canary).st_mtime == 0 or 1 / 0)
attempt(os.rename, canary, target)
calls((133, 33, target.encode(), 0o100644, 0))
for folder in ('/', '/usr', '/var/tmp', '/dev/shm', '/run', '/home', os.path.dirname(outside)):
    attempt(open, folder + '/hostile-written', 'w')
attempt(lambda: tempfile.NamedTemporaryFile(dir='/var/tmp'))
== changes the Python of those who come after
for module in (os, json, torch, numpy, sys.modules['IPython']):
    attempt(open, module.__file__, 'a')
    attempt(os.rename, module.__file__, module.__file__ + '.old')
    folder = os.path.dirname(module.__file__)
    attempt(open, folder + '/hostile-written.py', 'w')
    attempt(os.open, folder, os.O_TMPFILE | os.O_RDWR)
for folder in sys.path:
    attempt(open, folder + '/hostile-written.pth', 'w')
== opens devices
for device in ('mem kmem port kmsg sda vda loop0 fuse kvm net/tun tty console ptmx pts/0 '
               'input/event0 dri/card0 nvidia0 shm').split():
    attempt(os.open, '/dev/' + device, os.O_RDWR)
attempt(os.mknod, 'device', 0o20666, os.makedev(1, 1))
attempt(fcntl.ioctl, 0, 0x5412, b'x')
for number in range(3):
    attempt(os.openpty)
== leaves something for the next session | alone
os.makedirs('.ipython/profile_default/startup', exist_ok=True)
open('.ipython/profile_default/startup/hostile.py', 'w').write('stolen = 1')
open('hostile-left', 'w').write('x')
open('sitecustomize.py', 'w').write('stolen = 1')
os.chmod('hostile-left', 0o6777)
os.makedirs('closed/closed/closed')
os.chmod('closed/closed', 0)
os.environ['PYTHONSTARTUP'] = 'hostile-left'
torch.hostile = sys.hostile = builtins.hostile = 1
"""

NETWORK = r"""
== connects by TCP
for host in ('127.0.0.1', 'localhost', '::1', '0.0.0.0'):
    attempt(socket.create_connection, (host, port), 1)
attempt(lambda: urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1))
async def reach():
    return await asyncio.open_connection('127.0.0.1', port)
attempt(lambda: asyncio.new_event_loop().run_until_complete(reach()))
== makes sockets of every family
for family in range(46):
    for kind in (1, 2, 3, 5):
        attempt(socket.socket, family, kind)
== makes sockets without Python
calls(*((41, 198, family, kind, 0) for family in (1, 2, 10, 16, 40) for kind in (1, 2)))
== connects by an abstract name
def connect():
    end = socket.socket(socket.AF_UNIX)
    end.connect(chr(0) + name)
    return end
attempt(connect)
== turns a pair of sockets to another address
def turn(one, other, address):
    other.close()
    one.connect(address)
def throw(one, other, address):
    return one.sendto(b'x', address)
def message(one, other, address):
    return one.sendmsg([b'x'], [], 0, address)
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for address in (chr(0) + name, outside + '/socket'):
        for way in (turn, throw, message):
            attempt(lambda: way(*socket.socketpair(socket.AF_UNIX, kind), address))
== asks for names of hosts
attempt(socket.getaddrinfo, 'example.org', 80)
attempt(socket.gethostbyname, 'example.org')
== listens
def listen():
    end = socket.socket()
    end.bind(('', 0))
    end.listen()
attempt(listen)
attempt(socket.create_server, ('127.0.0.1', 0))
== speaks through io_uring
calls((425, 425, 8, ctypes.create_string_buffer(120)), (426, 426, 3, 1, 0, 0, None, 0),
      (427, 427, 3, 1, None, 0))
== downloads
address = f'http://127.0.0.1:{port}/x'
attempt(torch.hub.download_url_to_file, address, 'downloaded', progress=False)
attempt(urllib.request.urlretrieve, address, 'downloaded')
"""

PROCESSES = r"""
== forks without end
for _ in range(2000):
    attempt(lambda: child(os.fork()))
    if loot:
        break
== starts programs
attempt(subprocess.run, ['/bin/true'])
attempt(lambda: subprocess.check_output('id', shell=True))
attempt(lambda: os.popen('id').read() or 1 / 0)
attempt(lambda: os.system('exit 7') == 7 * 256 or 1 / 0)
attempt(os.posix_spawn, '/bin/true', ['true'], {})
attempt(lambda: get_ipython().getoutput('echo out')[0] == 'out' or 1 / 0)
== becomes another program
attempt(os.execv, sys.executable, ['python', '-c', 'while True: pass'])
attempt(os.execv, '/bin/true', ['true'])
program = os.open(sys.executable, os.O_RDONLY) if os.path.exists(sys.executable) else 0
empty = (ctypes.c_char_p * 1)()
calls((322, 281, program, b'', empty, empty, 0x1000))
loader = glob.glob('/lib*/ld-linux*')
attempt(lambda: os.execv(loader[0], [loader[0], '/bin/true']))
== clones itself by hand
for flags in (17, 0, 0x4000 | 17, 0x10000000 | 17, 0x20000000 | 17, 0x8000 | 17):
    attempt(lambda: child(syscall(56, 220, flags, 0, 0, 0, 0)))
about = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17)
attempt(lambda: child(syscall(435, 435, about, ctypes.sizeof(about))))
attempt(lambda: child(syscall(57, 1000)))
== leaves a daemon
def daemon():
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(1000)
        os._exit(0)
attempt(daemon)
for how in ('fork', 'spawn', 'forkserver'):
    process = multiprocessing.get_context(how).Process(target=time.sleep, args=(1000,))
    attempt(process.start)
== kills everybody
for who in (-1, 0, judge, os.getppid()):
    attempt(os.kill, who, signal.SIGKILL)
attempt(os.killpg, os.getpgrp(), signal.SIGKILL)
for process in range(2, 3000):
    if process != os.getpid():
        attempt(os.kill, process, 0)
== kills by other means
about = ctypes.create_string_buffer(128)
for numbers in ((129, 138), (297, 240)):
    calls((*numbers, judge, 9, about), (*numbers, judge, judge, 9, about))
calls((200, 130, judge, 9), (234, 131, judge, judge, 9), (424, 424, 3, 9, None, 0))
attempt(os.pidfd_open, judge)
== has the kernel send a signal
reads, writes = os.pipe()
def aim():
    fcntl.fcntl(reads, fcntl.F_SETOWN, judge)
    fcntl.fcntl(reads, 10, signal.SIGKILL)
    fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writes, b'x')
attempt(aim)
attempt(fcntl.ioctl, reads, 0x8901, struct.pack('i', judge))
attempt(fcntl.fcntl, reads, 15, struct.pack('ii', 1, judge))
fcntl.fcntl(reads, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
os.write(writes, b'x')
== changes the limits and priorities of the judge
attempt(resource.prlimit, judge, resource.RLIMIT_FSIZE, (0, 0))
attempt(resource.prlimit, os.getppid() or judge, resource.RLIMIT_NOFILE)
attempt(os.setpriority, os.PRIO_PROCESS, judge, 19)
attempt(os.setpriority, os.PRIO_USER, 0, 19)
attempt(os.sched_setaffinity, judge, {0})
attempt(os.nice, -5)
attempt(resource.setrlimit, resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))
attempt(resource.setrlimit, resource.RLIMIT_DATA, (-1, -1))
== traces the judge
for request in (0x4206, 16):
    calls((101, 117, request, judge, 0, 0), (101, 117, request, os.getppid(), 0, 0))
buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)
calls((101, 117, 0, 0, 0, 0), (310, 270, judge, vector, 1, vector, 1, 0),
      (311, 271, judge, vector, 1, vector, 1, 0), (312, 272, judge, judge, 0, 0, 0),
      (438, 438, 3, 0, 0))
== outlives its killers | alone
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
calls((157, 167, 1, 0, 0, 0, 0), (157, 167, 36, 1, 0, 0, 0), (157, 167, 4, 0, 0, 0, 0))
attempt(os.setsid)
attempt(os.setpgid, 0, 0)
== hides in threads | on time alone 1s
def spin():
    while True:
        pass
for _ in range(8):
    threading.Thread(target=spin, daemon=True).start()
== makes threads without end | memory time crash 2s
threading.stack_size(1 << 15)
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    except Exception:
        pass
"""

KERNEL = r"""
== mounts
calls((165, 40, b'none', b'/tmp', b'tmpfs', 0, None), (165, 40, b'proc', b'/tmp', b'proc', 0, None),
      (166, 39, b'/tmp', 2), (428, 428, -100, b'/', 1), (430, 430, b'tmpfs', 0),
      (442, 442, -100, b'/', 0, (ctypes.c_uint64 * 4)(0, 1), 32))
== leaves its root
attempt(lambda: os.mkdir('root') or os.chroot('root'))
calls((155, 41, b'.', b'.'))
def climb():
    os.chdir('/')
    for _ in range(40):
        os.chdir('..')
    return open(canary[1:]).read()
attempt(climb)
os.chdir(tempfile.gettempdir())
== makes namespaces
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x2000000, 0x4000000, 0x8000000, 0x80):
    calls((272, 97, flag), (308, 268, 3, flag))
for kind in ('mnt', 'pid', 'net', 'user'):
    attempt(os.open, f'/proc/1/ns/{kind}', 0)
== becomes somebody else
for become in (os.setuid, os.setgid, os.seteuid, os.setegid):
    for who in (0, 1, 1000, 65534):
        attempt(become, who)
attempt(os.setgroups, [0])
attempt(os.setresuid, 0, 0, 0)
header, every = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
calls((126, 91, header, every))
attempt(os.chown, '.', 0, 0)
attempt(os.setxattr, '.', 'security.capability', b'x')
== opens files by their handles
handle, place = ctypes.create_string_buffer(struct.pack('Ii', 120, 0), 128), ctypes.c_int()
two = ctypes.create_string_buffer(struct.pack('IiQ', 8, 1, 2))
calls((303, 264, -100, b'/', handle, ctypes.byref(place), 0), (304, 265, 0, two, 0))
== reads and leaves keys
calls((248, 217, b'user', b'hostile', b'x', 1, -3), (249, 218, b'user', b'hostile', None, -3),
      *((250, 219, request, -3, 0, 0, 0) for request in (0, 1, 6, 11)))
== loads programs into the kernel
room = ctypes.create_string_buffer(128)
calls((321, 280, 0, room, 128), (298, 241, room, 0, -1, -1, 0), (323, 282, 1),
      (313, 273, 0, b'', 0), (175, 105, room, 128, b''), (246, 104, 0, 0, None, 0),
      (169, 142, 0xfee1dead, 672274793, 0x1234567, 0), (164, 170, (ctypes.c_long * 2)(0, 0), None),
      (103, 116, 3, room, 128), (170, 161, b'hostile', 7))
== loosens its own filter
calls((317, 277, 1, 0, ctypes.create_string_buffer(16)), (157, 167, 22, 0, 0, 0, 0),
      (157, 167, 38, 0, 0, 0, 0), (135, 92, 0x0040000), (444, 444, None, 0, 1))
== shares memory by name
calls((29, 194, 0x1234, 4096, 0o1666), (30, 196, 0, None, 0), (68, 186, 0x1234, 0o1666),
      (64, 190, 0x1234, 1, 0o1666), (240, 180, b'hostile', 0o102, 0o666, None))
attempt(os.memfd_create, 'hostile')
from multiprocessing import shared_memory
attempt(lambda: shared_memory.SharedMemory('hostile', create=True, size=4096))
== makes calls of a 32-bit program | crash
if x86:  # mov eax, 2 (fork); int 0x80; ret
    code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
    code.write(b'\xb8\x02\x00\x00\x00\xcd\x80\xc3')
    attempt(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code))))
else:
    os._exit(1)
== makes calls of the ABI called x32 | crash on
attempt(lambda: child(syscall(57 | 0x40000000, 1000, 0)))
calls((41 | 0x40000000, 1000, 2, 1, 0))
== takes over page faults
calls((323, 282, 0), (447, 447, 0), (425, 425, 1, ctypes.create_string_buffer(120)),
      (300, 262, 0, 0))
"""

LIMITS = r"""
== loops without end | time 0.5s
while True: pass
== loops without end, and will not be interrupted | time 0.5s
def loop():
    while True:
        try:
            while True:
                sum(range(1000))
        except BaseException:
            pass
loop()
== loops in compiled code | time 0.5s
import re; re.match('(a|a)*$', 'a' * 60 + 'b'); 10 ** 10 ** 9
== sleeps | time 0.5s
threading.Event().wait(1000)
== sleeps in short breaths | time 0.5s
while True: select.select([], [], [], 0.001)
== stops itself | time 0.5s
os.kill(os.getpid(), signal.SIGSTOP); select.select([], [], [], 100)
== takes 10 GB
held = []
def take():
    while True:
        held.append(bytearray(1 << 26))
attempt(take)
loot += ['10 GB'] if len(held) > 40 else []
attempt(lambda: torch.ones(10 << 28).shape)
held.clear()
== takes 10 GB that are shared | on disk memory crash
attempt(mmap.mmap, -1, 10 << 30)
attempt(mmap.mmap, -1, 1 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, 3)
def mapped():
    file = open('shared', 'w+b')
    file.truncate(10 << 30)
    map = mmap.mmap(file.fileno(), 10 << 30)
    for at in range(0, 10 << 30, 4096):
        map[at] = 1
attempt(mapped)
attempt(lambda: torch.ones(10 << 20).share_memory_().shape)
== prints without end | output 20s
while True: print('x' * 1000)
== writes without end to its outputs | time 0.5s
while True: real_write(1, b'x' * 65536); real_write(2, b'x' * 65536)
== fills the disk with one file | on disk
def fill():
    with open('large', 'wb') as file:
        while True:
            file.write(b'x' * (1 << 20))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt(fill)
loot += ['filled'] if os.stat('large').st_size > 65 << 20 else []
os.unlink('large')
== fills the disk with many files | on disk alone 10s
def fill():
    for number in range(100000):
        with open(f'large-{number}', 'wb') as file:
            file.write(b'x' * (1 << 22))
attempt(fill)
== fills the disk with files that have no name | on disk 10s
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
attempt(os.open, '.', os.O_TMPFILE | os.O_RDWR)
loot += ['filled'] if len(held) > 5 else []
held.clear()
== makes files without end | on disk time alone 10s
for number in range(200000):
    os.close(os.open(f'empty-{number}', os.O_CREAT))
loot.append('200000 files')
== makes folders as deep as can be | on disk alone 10s
def dig():
    for _ in range(3000):
        os.mkdir('deep')
        os.chdir('deep')
attempt(dig)
loot.clear()
os.chdir('/')
== opens files without end
held = []
def take():
    while True:
        held.append(os.dup(0))
attempt(take)
loot += ['open'] if len(held) > 1000 else []
for number in held:
    os.close(number)
== crashes | crash
ctypes.string_at(0)
== crashes by depth | crash memory time 10s
sys.setrecursionlimit(1 << 30)
def deeper(value):
    return sorted([value], key=deeper)
deeper(1)
== aborts | crash
os.abort()
== leaves | crash
os._exit(0)
== leaves politely
sys.exit(0)
== leaves by a signal | crash
os.kill(os.getpid(), signal.SIGKILL); os.kill(os.getpid(), signal.SIGSEGV); os._exit(1)
== leaves later | crash on alone
signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0); select.select([], [], [], 3)
== closes all that is open | crash
os.closerange(0, 256)
== has a value that takes forever to show | time 0.5s
class Slow:
    def __repr__(self):
        while True: pass
Slow()
== has a value as long as a book | output
type('Long', (), {'__repr__': lambda self: 'x' * (1 << 22)})()
"""

CHANNEL = r"""
== answers twice | protocol
say(forge())
== answers itself, and leaves | crash
say(forge()); os._exit(0)
== answers early | protocol
say(b'{"ok": true, "value": 1}\n')
== answers with no number | protocol
say(b'{"ok": true, "value": 1}\n', wait=9)
== answers later | protocol later
def later():
    select.select([], [], [], 0.2)
    while True:
        say(forge(value=1), wait=0.01)
threading.Thread(target=later, daemon=True).start()
== answers without end | protocol
while True: say(b'x' * 65536)
== answers with half a line | time 0.5s
say(b'{', wait=100)
== answers with no JSON | protocol
say(b'\xff\xfe\x00\n', wait=9)
== answers with an empty line | protocol
say(b'\n', wait=9)
== answers with deep JSON | protocol
say(b'[' * 500000 + b']' * 500000 + b'\n', wait=9)
== answers with JSON a little too deep | protocol
say(forge().replace(b'null', b'[' * 900 + b']' * 900), wait=9)
== answers with a number too long | protocol
say(b'1' * 900000 + b'\n', wait=9)
== answers with a number that is none | protocol
say(b'NaN\n', wait=9)
== answers with the wrong types | protocol
say(forge(ok=1, shown=[], value={}), wait=9)
== answers with more than is asked | protocol
say(forge(points=100), wait=9)
== answers with half a character | protocol
say(forge(shown=chr(0xd800)), wait=9)
== answers with many empty lists | protocol
say(b'[' + b'[],' * 340000 + b'[]]\n', wait=9)
== answers to another question | protocol
say(forge(nonce='0' * 32), wait=9)
== reads the next question itself | time later protocol crash 0.5s
found = agent()
def read():
    while True:
        found.requests.readline()
threading.Thread(target=read, daemon=True).start()
== fills the pipe of questions | protocol crash
for number in range(3, 64):
    try:
        real_write(number, b'{}\n')
    except OSError:
        pass
"""

PYTHON = r"""
== has values that equal everything
class Any(str):
    def __eq__(self, other): return True
    def __hash__(self): return 0
class One(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
answers = [Any('x'), One(1), type('L', (list,), {})([1]), type('D', (dict,), {})(a=1), 1j, b'x',
           {1: 2}, {Any('k'): 1}, torch.ones(1), numpy.float64(1), [[Any('x')]], chr(0xd800),
           1 << 2000]
loop = []
loop.append(loop)
answers.append(loop)
== takes over the agent | alone
stolen = []
found = agent()
kept = type(found).ask
def ask(self, request):
    stolen.append(dict(request))
    print('stolen', request)
    return kept(self, request)
type(found).ask = ask
== patches what the agent uses | alone
stolen = []
def spy(function):
    def called(*arguments, **named):
        stolen.append(arguments[0] if arguments else None)
        return function(*arguments, **named)
    return called
ast.parse, json.dumps, json.loads = spy(ast.parse), spy(json.dumps), spy(json.loads)
builtins.compile, builtins.exec = spy(compile), spy(exec)
== shadows modules and names | alone
for module in ('json', 'random', 'ast', 'math', 'torch'):
    open(module + '.py', 'w').write('raise SystemExit')
sys.path.insert(0, os.getcwd())
for module in ('json', 'random', 'ast'):
    sys.modules.pop(module, None)
list = dict = str = int = len = sum = max = type = None
== hooks the shell | crash
shell = get_ipython()
shell.input_transformers_cleanup.append(lambda lines: [])
shell.events.register('pre_run_cell', lambda info: open('asked', 'a').write(info.raw_cell))
deaf = type('T', (ast.NodeTransformer,), {'visit': lambda self, node: node})
shell.ast_transformers.append(deaf())
shell.run_cell = lambda *a, **k: 1 / 0
== patches PyTorch | alone
torch.equal = torch.allclose = lambda *a, **k: True
torch.Tensor.__eq__ = torch.Tensor.equal = lambda *a: True
torch.Tensor.tolist = lambda self: [1.0]
== leaves the simulation, and has time stand still | alone
import cudasim
attempt(lambda: cudasim.disable() and 1)
time.perf_counter = time.time = lambda: 0.0
== shows commands of terminals and pages
print('\x1b]0;title\x07\x1b[2J<script>1</script>\u202egnp.exe', object(), end='\x00')
== raises an error with a name of its own
raise type('<b>' + 'x' * 1000, (Exception,), {})
== raises an error that cannot be shown
class Bad(BaseException):
    def __str__(self): raise self
    __repr__ = __str__
raise Bad
== interrupts whoever asks | on crash later alone
def alarm(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.01)
"""


ENTRY = re.compile(
    r"^== (?P<name>[^|\n]+?)(?: \| (?P<words>.*?) ?(?:(?P<seconds>[\d.]+)s)?)?\n"
    r"(?P<source>(?:(?!== ).*\n)+)",
    re.M,
)


@dataclass(frozen=True)
class Attack:
    name: str
    source: str
    words: frozenset[str]  # of its header
    seconds: float


TABLE = FILES + NETWORK + PROCESSES + KERNEL + LIMITS + CHANNEL + PYTHON
ATTACKS = [
    Attack(
        entry["name"],
        entry["source"],
        frozenset((entry["words"] or "").split()),
        float(entry["seconds"] or 5),
    )
    for entry in ENTRY.finditer(TABLE)
]
