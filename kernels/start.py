"""Start the IPython kernel of a runner: called by `kernels/<runner>/kernel.json`.

What a runner needs beyond environment variables is done here, once, so that no chapter
has to: its code is the same on every runner.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

from traitlets.config import Config

# A runner's environment is whole: set-up cells have nothing to install, and ask no index.
NO_PIP = "get_ipython().register_magic_function(lambda line: None, magic_name='pip')"


def hide_accelerators() -> None:
    """Make torch see no accelerator where no environment variable can: Apple's `mps`.

    CUDA, ROCm and XPU are hidden by the variables in kernel.json. The functions of
    `torch.accelerator` all ask `current_accelerator`, so hiding that one hides them all.
    """
    import torch

    if torch.backends.mps.is_available():
        torch.backends.mps.is_available = lambda: False
        torch.mps.device_count = lambda: 0
        torch.accelerator.current_accelerator = lambda check_available=False: None


def find_cudasim() -> None:
    """Let chapters import `cudasim`, on runners without simulated GPUs too.

    It comes last on the path: one that is installed stays the one that is imported.
    """
    sys.path.append(str(Path(__file__).resolve().parents[1] / "cudasim" / "src"))


def simulate(gpus: int, device_type: str, card: str | None, clock: str | None) -> None:
    """Let torch see `gpus` simulated GPUs instead of those of this machine."""
    import cudasim

    cudasim.enable(
        gpus=gpus, card=card, force=True, device_type=device_type, clock=clock
    )


def complete_torchvision() -> None:
    """Let torchvision's CUDA wheel load beside a CPU-only torch.

    Its import registers kernels for two operators that its compiled half, which needs
    CUDA, should have declared. With the declarations made, its data sets and transforms
    work; the two operators themselves stay without a kernel.
    """
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or torch.version.cuda is not None:
        return
    package = Path(spec.origin).parent
    if "+cu" not in (package / "version.py").read_text(encoding="utf-8"):
        return
    for compiled in package.glob("_C*.so"):
        try:
            torch.ops.load_library(str(compiled))
        except OSError:  # no library of CUDA: what this function is for
            continue
        return  # the wheels from 0.29 on load, and declare the operators themselves
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    sys.modules[__name__].torchvision_library = library  # the operators die with it


def kernel_config() -> Config:
    """Settings that make a kernel's outputs the same on every run and every machine."""
    config = Config()
    config.IPKernelApp.log_level = (
        "ERROR"  # else it warns that loopback is not encrypted
    )
    config.InteractiveShell.colors = "nocolor"  # tracebacks are for logs and pages
    config.HistoryManager.enabled = False  # leaves nothing in the reader's home
    config.IPKernelApp.exec_lines = [NO_PIP]
    config.InlineBackend.figure_formats = {"svg"}  # nbval does not compare PNG
    config.InlineBackend.rc = {"svg.hashsalt": "where-tensors-live"}
    return config


def main() -> None:
    """Start the kernel; all arguments but ours go to IPython."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hide-accelerators", action="store_true")
    parser.add_argument("--simulate", type=int, metavar="GPUS")
    parser.add_argument(
        "--device-type", default="cuda", help="what simulated GPUs are called"
    )
    parser.add_argument(
        "--card", help="which card they are; the type's usual one if not said"
    )
    parser.add_argument(
        "--clock", choices=["modelled"], help="whose time it is; else the CPU's"
    )
    ours, theirs = parser.parse_known_args()
    del sys.path[0]  # this folder: a chapter imports nothing from here
    if ours.hide_accelerators:
        hide_accelerators()
    find_cudasim()
    complete_torchvision()  # first, as simulated GPUs name a version of CUDA
    if ours.simulate:
        simulate(ours.simulate, ours.device_type, ours.card, ours.clock)

    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(argv=theirs, config=kernel_config())


if __name__ == "__main__":
    main()
