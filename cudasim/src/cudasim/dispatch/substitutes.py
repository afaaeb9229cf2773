"""What the functions that compute in the place of CUDA's kernels have in common."""

from torch import Tensor


def require(condition: bool, message: str) -> None:
    """Raise the error of a `TORCH_CHECK`."""
    if not condition:
        raise RuntimeError(message)


def write(result: Tensor, out: Tensor | None) -> Tensor:
    """Return a result, or the `out` of a program with its numbers and its shape."""
    return result if out is None else out.resize_(result.shape).copy_(result)
