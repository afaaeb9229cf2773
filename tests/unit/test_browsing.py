"""Without a browser, its tests are skipped at home and fail on CI, and say once what to install."""

import os
import re
import subprocess
import sys

import pytest
from helpers import ROOT

LACKS = "error while loading shared libraries: libatomic.so.1: cannot open shared object file"
INSTALL = "apt-get install chromium libatomic1"


@pytest.mark.skipif(os.name != "posix", reason="the stand-in is a shell script")
@pytest.mark.parametrize("ci", [False, True])
def test_browser_tests_give_the_reason_once_skipped_at_home_and_failed_on_ci(tmp_path, ci):
    if ci and sys.platform != "linux":
        pytest.skip("Linux's CI has a browser, others need none")
    for name, lacks in (("chromium", ""), ("node", f"echo '{LACKS}' >&2; exit 127")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{lacks}\n")
        (tmp_path / name).chmod(0o755)
    command = ["pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "tests/site/test_pages.py"]
    found = {"PATH": f"{tmp_path}:/bin", "PLAYWRIGHT_NODEJS_PATH": str(tmp_path / "node")}
    options = {"cwd": ROOT, "env": os.environ | found | {"CI": "true" if ci else ""}}
    words = [sys.executable, "-m", *command, "-k", "what_buttons"]
    run = subprocess.run(words, capture_output=True, text=True, **options)
    assert (run.returncode != 0) == ci and "passed" not in run.stdout, run.stdout
    assert re.findall(r"\d+ skipped", run.stdout) == ([] if ci else ["2 skipped"]), run.stdout
    (said,) = [line for line in (run.stdout + run.stderr).splitlines() if "browser: " in line]
    assert LACKS in said and INSTALL in said
