"""TorchScript compiles what it is given, and knows PyTorch's functions by their identity.

Those that a simulation replaced must be known too, or it looks for their source: forward-mode
derivatives (`torch.func.jacfwd`) compile some when they are first used.
"""

import torch

from cudasim.patching import Patches


def patch_scripting(patches: Patches) -> None:
    """Let TorchScript read each function replaced so far as the one that it replaces."""
    table = torch.jit._builtins._get_builtin_table()
    for before, now in patches.replaced():
        name = table.get(id(before))
        if name is not None:
            patches.replace_item(table, id(now), name)
