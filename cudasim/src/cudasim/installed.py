"""Which PyTorch is installed: pip does not install one with this package."""

OLDEST = "2.11"
# The versions that the package was tried with. `pyproject.toml` and the pages name them too.
REQUIREMENT = f"torch>={OLDEST},<2.15"
ADVICE = (
    f'pip install "{REQUIREMENT}" --index-url https://download.pytorch.org/whl/cpu '
    "(or another build of https://pytorch.org/get-started)"
)


def check_torch() -> None:
    """Raise ImportError, in one line, if PyTorch is missing or too old to be simulated."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"cudasim needs PyTorch, which is not installed: {ADVICE}"
        ) from None
    if minor_version(torch.__version__) < minor_version(OLDEST):
        message = (
            f"cudasim needs PyTorch {OLDEST} or newer; this is {torch.__version__}"
        )
        raise ImportError(f"{message}: {ADVICE}")


def minor_version(version: str) -> tuple[int, ...]:
    """Return the major and the minor number of a version such as `2.13.0+cpu`."""
    return tuple(int(part) for part in version.split(".")[:2])
