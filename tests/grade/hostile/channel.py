"""Speaking to the judge in the agent's place."""

from hostile import Attack

FORGE = """
def forge(**content):
    said = {'nonce': nonce(), 'ok': True, 'error': None, 'shown': '', 'value': None} | content
    return json.dumps(said).encode() + b'\\n'
def say(line):
    for each in pipes():
        real_write(each, line)
"""


def on_the_wire(name: str, source: str, *ends: str, **more: object) -> Attack:
    """An attack that writes to the agent's pipe."""
    return Attack(name, FORGE + source, ends=ends or ("protocol",), **more)


ATTACKS = [
    on_the_wire("answers twice", "say(forge())"),
    on_the_wire("answers itself, and leaves", "say(forge()); os._exit(0)", "crash"),
    on_the_wire("answers early", 'say(b\'{"ok": true, "value": 1}\\n\')'),
    on_the_wire(
        "answers with no number",
        'say(b\'{"ok": true, "value": 1}\\n\'); select.select([], [], [], 9)',
    ),
    on_the_wire(
        "answers later",
        """
def later():
    select.select([], [], [], 0.2)
    while True:
        say(forge(value=1))
        select.select([], [], [], 0.01)
threading.Thread(target=later, daemon=True).start()
""",
        "protocol",
        "later",
    ),
    on_the_wire(
        "answers without end",
        "\nwhile True: say(b'x' * 65536)",
    ),
    on_the_wire(
        "answers with half a line", "say(b'{'); select.select([], [], [], 100)", "time", seconds=0.5
    ),
    on_the_wire("answers with no JSON", "say(b'\\xff\\xfe\\x00\\n'); select.select([], [], [], 9)"),
    on_the_wire("answers with an empty line", "say(b'\\n'); select.select([], [], [], 9)"),
    on_the_wire(
        "answers with deep JSON",
        "say(b'[' * 500000 + b']' * 500000 + b'\\n'); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers with JSON a little too deep",
        "say(forge().replace(b'null', b'[' * 900 + b']' * 900)); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers with a number too long",
        "say(b'1' * 900000 + b'\\n'); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers with a number that is none", "say(b'NaN\\n'); select.select([], [], [], 9)"
    ),
    on_the_wire(
        "answers with the wrong types",
        "say(forge(ok=1, shown=[], value={})); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers with more than is asked", "say(forge(points=100)); select.select([], [], [], 9)"
    ),
    on_the_wire(
        "answers with half a character",
        "say(forge(shown=chr(0xd800))); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers with many empty lists",
        "say(b'[' + b'[],' * 340000 + b'[]]\\n'); select.select([], [], [], 9)",
    ),
    on_the_wire(
        "answers to another question", "say(forge(nonce='0' * 32)); select.select([], [], [], 9)"
    ),
    on_the_wire(
        "reads the next question itself",
        """
agent = next(each for each in gc.get_objects() if type(each).__name__ == 'Agent')
def read():
    while True:
        agent.requests.readline()
threading.Thread(target=read, daemon=True).start()
""",
        "time",
        "later",
        "protocol",
        "crash",
        seconds=0.5,
    ),
    on_the_wire(
        "fills the pipe of questions",
        """
for number in range(3, 64):
    try:
        real_write(number, b'{}\\n')
    except OSError:
        pass
""",
        "protocol",
        "crash",
    ),
]
