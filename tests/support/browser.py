"""The browser that pages are looked at with."""

import os
import shutil
import subprocess
import tempfile

import pytest


def browser() -> str:
    """Its program. Skips the test where there is none."""
    if (found := shutil.which("chromium")) is None:
        pytest.skip("no chromium: apt-get install chromium")
    return found


def browse(url: str, *options: str) -> str:
    """What it says once it has shown a page: nothing, or with `--dump-dom` the page as it is then."""
    common = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    with tempfile.TemporaryDirectory() as home:  # where it may write
        done = subprocess.run(
            [browser(), *common, *options, url],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            env={**os.environ, "HOME": home},
        )
    return done.stdout
