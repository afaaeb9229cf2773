"""Use the extension of IPython: load it, simulate other GPUs, make mistakes, unload it."""

import time

import torch
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()


def cudasim(arguments):
    shell.run_line_magic("cudasim", arguments)


shell.run_line_magic("load_ext", "cudasim")
print(torch.cuda.device_count())

cudasim("3 --card H100")
for mistake in ("0", "2 --crad T4", "2 --card", "2 --device-type mps"):
    cudasim(mistake)
memory = torch.cuda.get_device_properties(2).total_memory
print(torch.cuda.device_count(), memory >> 30)

cudasim("1 --clock modelled")
print(torch.cuda.device_count(), time.perf_counter() < 1)

cudasim("--device-type mps")
print(torch.accelerator.current_accelerator(), torch.ones(1, device="mps"))

shell.run_line_magic("unload_ext", "cudasim")
print(torch.accelerator.is_available(), shell.find_line_magic("cudasim"))
