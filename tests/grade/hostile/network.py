"""Talking to somebody."""

from hostile import Attack

ATTACKS = [
    Attack(
        "connects by TCP",
        """
for host in ('127.0.0.1', 'localhost', '::1', '0.0.0.0'):
    attempt(lambda: socket.create_connection((host, port), 1))
attempt(lambda: urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1))
async def reach():
    return await asyncio.open_connection('127.0.0.1', port)
attempt(lambda: asyncio.new_event_loop().run_until_complete(reach()))
""",
    ),
    Attack(
        "makes sockets of every family",
        """
for family in range(46):
    for kind in (1, 2, 3, 5):
        attempt(lambda: socket.socket(family, kind))
""",
    ),
    Attack(
        "makes sockets without Python",
        """
for family in (1, 2, 10, 16, 40):
    attempt(lambda: syscall(41, 198, family, 1, 0))
    attempt(lambda: syscall(41, 198, family, 2, 0))
""",
    ),
    Attack(
        "connects by an abstract name",
        """
def connect():
    end = socket.socket(socket.AF_UNIX)
    end.connect(chr(0) + name)
    return end
attempt(connect)
""",
    ),
    Attack(
        "turns a pair of sockets to another address",
        """
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    for address in (chr(0) + name, outside + '/socket'):
        def turn():
            one, other = socket.socketpair(socket.AF_UNIX, kind)
            other.close()
            one.connect(address)
        def throw():
            one, other = socket.socketpair(socket.AF_UNIX, kind)
            return one.sendto(b'x', address)
        def message():
            one, other = socket.socketpair(socket.AF_UNIX, kind)
            return one.sendmsg([b'x'], [], 0, address)
        attempt(lambda: turn() or 1)
        attempt(throw)
        attempt(message)
""",
    ),
    Attack(
        "asks for names of hosts",
        """
attempt(lambda: socket.getaddrinfo('example.org', 80))
attempt(lambda: socket.gethostbyname('example.org'))
""",
    ),
    Attack(
        "listens",
        """
def listen():
    end = socket.socket()
    end.bind(('', 0))
    end.listen()
attempt(lambda: listen() or 1)
attempt(lambda: socket.create_server(('127.0.0.1', 0)))
""",
    ),
    Attack(
        "speaks through io_uring",
        """
parameters = ctypes.create_string_buffer(120)
attempt(lambda: syscall(425, 425, 8, parameters))
attempt(lambda: syscall(426, 426, 3, 1, 0, 0, None, 0))
attempt(lambda: syscall(427, 427, 3, 1, None, 0))
""",
    ),
    Attack(
        "downloads",
        """
address = f'http://127.0.0.1:{port}/x'
attempt(lambda: torch.hub.download_url_to_file(address, 'downloaded', progress=False) or 1)
attempt(lambda: urllib.request.urlretrieve(address, 'downloaded'))
""",
    ),
]
