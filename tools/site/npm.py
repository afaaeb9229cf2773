"""Files of npm packages, which are pinned by version and by the hash of their tarball."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

from tools.errors import BookError

STORE = "_build/npm"


def read_member(package: str, version: str, digest: str, member: str, root: Path) -> bytes:
    """One file of a package, which is fetched unless `_build/npm` has it.

    `digest` is the SHA-256 of its tarball. Raises BookError if it is another, or cannot be fetched.
    """
    folder = root / STORE
    path = folder / f"{package.strip('@').replace('/', '-')}-{version}.tgz"
    place = path.relative_to(root)
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", f"{package}@{version}"]
        try:
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            raise BookError(
                f"{place}: cannot be fetched ({error}); install npm, or put the package there"
            ) from None
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise BookError(f"{place}: not the package that is pinned; delete it and try again")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.extractfile(f"package/{member}").read()
