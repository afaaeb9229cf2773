"""Turning Python and the agent against the judge."""

from hostile import Attack

ATTACKS = [
    Attack(
        "has values that equal everything",
        """
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
""",
    ),
    Attack(
        "takes over the agent",
        """
stolen = []
agent = next(each for each in gc.get_objects() if type(each).__name__ == 'Agent')
kept = type(agent).ask
def ask(self, request):
    stolen.append(dict(request))
    print('stolen', request)
    return kept(self, request)
type(agent).ask = ask
""",
        alone=True,
    ),
    Attack(
        "patches what the agent uses",
        """
stolen = []
def spy(function):
    def called(*arguments, **named):
        stolen.append(arguments[0] if arguments else None)
        return function(*arguments, **named)
    return called
ast.parse, json.dumps, json.loads = spy(ast.parse), spy(json.dumps), spy(json.loads)
builtins.compile, builtins.exec = spy(compile), spy(exec)
""",
        alone=True,
    ),
    Attack(
        "shadows modules and names",
        """
for each in ('json', 'random', 'ast', 'math', 'torch'):
    open(each + '.py', 'w').write('raise SystemExit')
sys.path.insert(0, os.getcwd())
for each in ('json', 'random', 'ast'):
    sys.modules.pop(each, None)
list = dict = str = int = len = sum = max = type = None
""",
        alone=True,
    ),
    Attack(
        "hooks the shell",
        """
shell = get_ipython()
shell.input_transformers_cleanup.append(lambda lines: [])
shell.events.register('pre_run_cell', lambda info: open('asked', 'a').write(info.raw_cell))
deaf = type('T', (ast.NodeTransformer,), {'visit': lambda self, node: node})
shell.ast_transformers.append(deaf())
shell.run_cell = lambda *a, **k: 1 / 0
""",
        ends=("crash",),
    ),
    Attack(
        "patches PyTorch",
        """
torch.equal = torch.allclose = lambda *a, **k: True
torch.Tensor.__eq__ = torch.Tensor.equal = lambda *a: True
torch.Tensor.tolist = lambda self: [1.0]
""",
        alone=True,
    ),
    Attack(
        "leaves the simulation, and has time stand still",
        """
import cudasim
attempt(lambda: cudasim.disable() and 1)
time.perf_counter = time.time = lambda: 0.0
""",
        alone=True,
    ),
    Attack(
        "shows commands of terminals and pages",
        r"print('\x1b]0;title\x07\x1b[2J<script>1</script>\u202egnp.exe', object(), end='\x00')",
    ),
    Attack(
        "raises an error with a name of its own", "raise type('<b>' + 'x' * 1000, (Exception,), {})"
    ),
    Attack(
        "raises an error that cannot be shown",
        """
class Bad(BaseException):
    def __str__(self): raise self
    __repr__ = __str__
raise Bad
""",
    ),
    Attack(
        "interrupts whoever asks",
        """
def alarm(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3, 0.01)
""",
        ends=("", "crash", "later"),
        alone=True,
    ),
]
