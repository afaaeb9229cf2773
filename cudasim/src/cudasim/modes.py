"""The base of the package's dispatch modes."""

from torch.utils._python_dispatch import TorchDispatchMode


class LightMode(TorchDispatchMode):
    """A dispatch mode under which the first operation does not import `torch._dynamo`.

    That takes a second. What PyTorch asks is private: so in 2.11 and 2.13, of which
    `tests/test_compile.py` says whether it still holds.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
