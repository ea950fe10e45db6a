"""The browser that pages are looked at with."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def browser() -> str:
    """Its program. Skips the test where there is none."""
    if (found := shutil.which("chromium")) is None:
        pytest.skip("no chromium: apt-get install chromium")
    return found


_COMMON = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


@contextmanager
def browsing(url: str, home: Path) -> Iterator[None]:
    """It shows a page, and goes where that goes, until the context ends."""
    home.mkdir()
    command = [browser(), *_COMMON, "--remote-debugging-port=0", f"--user-data-dir={home}", url]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)}
    ) as process:
        try:
            yield
        finally:
            process.terminate()


def browse(url: str, *options: str) -> str:
    """What it says once it has shown a page: nothing, or with `--dump-dom` the page as it is then."""
    with tempfile.TemporaryDirectory() as home:  # where it may write
        done = subprocess.run(
            [browser(), *_COMMON, *options, url],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            env={**os.environ, "HOME": home},
        )
    return done.stdout
