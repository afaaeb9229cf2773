"""What happens at each operation: checks, computation, and where results live.

All modules are imported here, as many register rules, layers or substitutes.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
