"""Reading what is outside, and writing there."""

from hostile import Attack

ATTACKS = [
    Attack("reads a file", "attempt(lambda: open(canary).read())"),
    Attack(
        "reads a file, in disguise",
        """
w = base64.b64decode('b3Blbg==').decode()
f = getattr(__import__(bytes.fromhex('6275696c74696e73').decode()), w)
attempt(lambda: eval(compile("f(canary).read()", '', 'eval')))
attempt(lambda: [c for c in ().__class__.__base__.__subclasses__()
                 if c.__name__ == 'FileIO'][0](canary).read())
""",
    ),
    Attack(
        "reads a file without Python",
        """
def read():
    number = libc.open(canary.encode(), 0)
    if number < 0:
        raise OSError
    buffer = ctypes.create_string_buffer(100)
    libc.read(number, buffer, 100)
    return buffer.value
attempt(read)
attempt(lambda: syscall(257, 56, -100, canary.encode(), 0, 0))
attempt(lambda: syscall(437, 437, -100, canary.encode(), (ctypes.c_uint64 * 3)(), 24))
""",
    ),
    Attack(
        "reads a file through libraries",
        """
attempt(lambda: numpy.fromfile(canary, dtype='u1').tobytes())
attempt(lambda: torch.from_file(canary, size=4, dtype=torch.uint8).tolist())
attempt(lambda: numpy.memmap(canary, mode='r').tobytes())
attempt(lambda: urllib.request.urlopen('file://' + canary).read())
attempt(lambda: list(importlib.machinery.SourceFileLoader('x', canary).get_data(canary)))
attempt(lambda: get_ipython().find_user_code(canary))
""",
    ),
    Attack(
        "climbs out of its folder",
        """
up = '../' * 40
attempt(lambda: open(up + canary[1:]).read())
for root in ('/proc/self/root', '/proc/1/root', '/proc/self/cwd/' + up, f'/proc/{judge}/root',
             f'/proc/{judge}/cwd/' + up, '/proc/thread-self/root', '/proc/2/root'):
    attempt(lambda: open(root + canary).read())
    attempt(lambda: os.listdir(root + outside))
""",
    ),
    Attack(
        "opens folders by handles that were left open",
        """
for number in range(256):
    attempt(lambda: os.listdir(number))
    attempt(lambda: os.open(canary.lstrip('/'), os.O_RDONLY, dir_fd=number))
    attempt(lambda: open(f'/proc/self/fd/{number}/../../..' + canary).read())
""",
    ),
    Attack(
        "links to a file",
        """
for make in (os.symlink, os.link):
    attempt(lambda: make(canary, 'link') or open('link').read())
""",
    ),
    Attack(
        "looks around",
        """
for place in (outside, '/var', '/etc/ssh', '/srv', '/run', '/boot', '/dev/shm', '/var/tmp'):
    attempt(lambda: os.listdir(place))
    attempt(lambda: list(os.scandir(place)))
for place in ('/root', '/home', '/opt', '/proc', '/sys', '/autograder', '/'):
    attempt(lambda: open(place + '/hostile-written', 'w'))
for name in ('/etc/passwd', '/etc/shadow', '/etc/hostname', '/etc/hosts'):
    attempt(lambda: open(name).read())
attempt(lambda: glob.glob('/*/*/masters/*')[0])
attempt(lambda: glob.glob('/*/masters/*')[0])
""",
    ),
    Attack(
        "reads what the kernel says of processes",
        """
for who in ('self', '1', str(judge), str(os.getppid())):
    for what in ('environ', 'cmdline', 'maps', 'mem', 'status', 'mountinfo', 'fd', 'cgroup'):
        attempt(lambda: open(f'/proc/{who}/{what}', 'rb').read(1))
        attempt(lambda: os.listdir(f'/proc/{who}/{what}'))
""",
    ),
    Attack(
        "searches its memory for secrets of the judge",
        """
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
words, at = [], 0
while environ[at]:
    words.append(environ[at])
    at += 1
words += [each for each in gc.get_objects() if type(each) is str]
words += [str(value) for module in list(sys.modules.values()) if module
          for value in vars(module).values() if type(value) in (str, bytes, dict)]
loot += [str(each)[:50] for each in words if ''.join(['HOSTILE', '_SECRET']) in str(each)]
""",
    ),
    Attack(
        "writes outside",
        """
target = outside + '/written'
attempt(lambda: open(target, 'w'))
attempt(lambda: os.mkdir(target))
attempt(lambda: os.mkfifo(target))
attempt(lambda: torch.save(1, target) or 1)
attempt(lambda: shutil.copy(os.__file__, target))
attempt(lambda: numpy.save(target, 1) or 1)
open('mine', 'w').write('x')
attempt(lambda: os.rename('mine', target) or 1)
attempt(lambda: os.link('mine', target) or 1)
attempt(lambda: os.truncate(canary, 0) or 1)
attempt(lambda: os.unlink(canary) or 1)
mode = lambda: os.stat(canary).st_mode & 0o777 or loot.append('closed')
attempt(lambda: os.chmod(canary, 0) or mode() and 1 / 0)
attempt(lambda: os.chmod(os.open(os.__file__, os.O_RDONLY), 0) or 1 / 0)
attempt(lambda: os.utime(canary, (0, 0)) or os.stat(canary).st_mtime == 0 or 1 / 0)
attempt(lambda: os.rename(canary, target) or 1)
attempt(lambda: syscall(133, 33, target.encode(), 0o100644, 0))
for folder in ('/', '/usr', '/var/tmp', '/dev/shm', '/run', '/home', os.path.dirname(outside)):
    attempt(lambda: open(folder + '/hostile-written', 'w'))
attempt(lambda: tempfile.NamedTemporaryFile(dir='/var/tmp'))
""",
    ),
    Attack(
        "changes the Python of those who come after",
        """
for module in (os, json, torch, numpy, sys.modules['IPython']):
    attempt(lambda: open(module.__file__, 'a'))
    attempt(lambda: os.rename(module.__file__, module.__file__ + '.old') or 1)
    folder = os.path.dirname(module.__file__)
    attempt(lambda: open(folder + '/hostile-written.py', 'w'))
    attempt(lambda: os.open(folder, os.O_TMPFILE | os.O_RDWR))
for folder in sys.path:
    attempt(lambda: open(folder + '/hostile-written.pth', 'w'))
""",
    ),
    Attack(
        "opens devices",
        """
for name in ('mem', 'kmem', 'port', 'kmsg', 'sda', 'vda', 'loop0', 'fuse', 'kvm', 'net/tun', 'tty',
             'console', 'ptmx', 'pts/0', 'input/event0', 'dri/card0', 'nvidia0', 'shm'):
    attempt(lambda: os.open('/dev/' + name, os.O_RDWR))
attempt(lambda: os.mknod('device', 0o20666, os.makedev(1, 1)) or 1)
attempt(lambda: fcntl.ioctl(0, 0x5412, b'x'))
for number in range(3):
    attempt(lambda: os.openpty())
""",
    ),
    Attack(
        "leaves something for the next session",
        """
os.makedirs('.ipython/profile_default/startup', exist_ok=True)
open('.ipython/profile_default/startup/hostile.py', 'w').write('stolen = 1')
open('hostile-left', 'w').write('x')
open('sitecustomize.py', 'w').write('stolen = 1')
os.chmod('hostile-left', 0o6777)
os.makedirs('closed/closed/closed')
os.chmod('closed/closed', 0)
os.environ['PYTHONSTARTUP'] = 'hostile-left'
torch.hostile = sys.hostile = builtins.hostile = 1
""",
        alone=True,
    ),
]
