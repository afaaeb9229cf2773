# @title Set-up: run this cell too, again after each restart of the kernel
# It installs what this machine lacks, never another torch or numpy, and does nothing where all
# is there.
class NotReady(Exception):
    """Why the chapter cannot run here, shown as one line instead of a traceback."""

    def _render_traceback_(self):
        return [f'Not ready: {self}']

def install(packages, *options):
    import importlib
    import site
    import subprocess
    import sys

    print('Set-up: installing', *packages, flush=True)
    pip = [sys.executable, '-m', 'pip', 'install', '--quiet', '--retries=1', *options]
    run = subprocess.run([*pip, *packages], capture_output=True, text=True)
    if run.returncode:
        lines = run.stderr.strip().splitlines() or ['nothing']
        errors = [line for line in lines if 'error:' in line.lower() and 'Exception:' not in line]
        reason = [*errors, lines[-1]][0]
        raise NotReady(f"no {', '.join(packages)}. Is the network on? pip says: {reason}")
    if site.ENABLE_USER_SITE:  # pip may have made that folder just now
        site.addsitedir(site.getusersitepackages())
    importlib.invalidate_caches()

def set_up(needs, alone, simulator, imports_simulator):
    import sys

    oldest, found = OLDEST_PYTHON, sys.version.split()[0]
    if sys.version_info < oldest:
        raise NotReady(f'Python {found} is too old, take {oldest[0]}.{oldest[1]} or later')
    from importlib.metadata import version
    from importlib.util import find_spec

    held = {name: version(name) for name in ('torch', 'numpy') if find_spec(name)}
    torch = held.get('torch', '')
    simulator_too = SIMULATE_GPUS or imports_simulator
    lowest = OLDEST_TORCH_SIMULATING if simulator_too else OLDEST_TORCH
    if torch and tuple(int(part) for part in torch.split('.')[:2]) < lowest:
        words = f'{lowest[0]}.{lowest[1]} or later, and restart'
        raise NotReady(f'torch {torch} with SIMULATE_GPUS = {SIMULATE_GPUS}: take {words}')
    missing = [package for name, package in needs.items() if not find_spec(name)]
    if missing:
        build = torch.partition('+')[2]  # cu128 of 2.11.0+cu128
        index = [f'--extra-index-url=https://download.pytorch.org/whl/{build}'] if build else []
        install(missing, *index, *(f'{name}=={number}' for name, number in held.items()))
    alone = dict(alone, cudasim=simulator) if simulator_too else alone
    missing = [package for name, package in alone.items() if not find_spec(name)]
    if missing:
        install(missing, '--no-deps')
    if simulator_too:
        import cudasim

        if not hasattr(cudasim, 'timeline'):
            raise NotReady("an older cudasim is here: 'pip uninstall cudasim', and restart")
    if SIMULATE_GPUS:
        try:
            if not cudasim.is_enabled():
                cudasim.enable(gpus=2, clock='modelled')
        except RuntimeError as reason:
            raise NotReady(f'{reason}. Restart, and run this cell first') from None

set_up(
    NEEDS,
    ALONE,  # without their own lists of requirements
    'git+REPOSITORY@BRANCH#subdirectory=cudasim',
    imports_simulator=IMPORTS_SIMULATOR,
)
