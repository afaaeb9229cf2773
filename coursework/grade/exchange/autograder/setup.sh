#!/bin/bash
# Run once by Gradescope, as root, while it builds the image: Ubuntu 22.04 or later.
# `setup.sh --permissions` does the last part alone.
set -euo pipefail
root="${AUTOGRADER:-/autograder}"
source="$root/source"

if [[ "${1:-}" != --permissions ]]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends \
    ca-certificates python3 python3-pip python3-venv libseccomp2 bubblewrap
  python3 -m venv /opt/uv
  /opt/uv/bin/pip install --quiet "$(grep -o '^uv==[^ ;]*' "$source/requirements.txt")"
  # Where students' code may read it, and no older than the book's: Ubuntu 22.04 has Python 3.10.
  export UV_PYTHON_INSTALL_DIR=/opt/python UV_NO_CACHE=1
  /opt/uv/bin/uv venv --quiet --python 3.12 /opt/grading
  # PyTorch from its index of CPU builds, which are a tenth as large; the rest from PyPI.
  export UV_PYTHON=/opt/grading/bin/python UV_TORCH_BACKEND=cpu
  /opt/uv/bin/uv pip install --quiet \
    --requirement "$source/coursework/grade/exchange/autograder/packages.txt"
  /opt/uv/bin/uv pip install --quiet --no-deps --requirement "$source/requirements-no-deps.txt"
fi

# Code may be read by the user as whom students' code runs; the tests, by root alone.
mkdir -p "$root/results"
chown -R root:root "$source" "$root/results"
chmod -R u=rwX,go=rX "$source"
chmod -R u=rwX,go= "$source/private" "$root/results"
