"""Where this repository is, and what it holds."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def tracked_files() -> list[str]:
    """The paths below ROOT that git has or would take."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().splitlines()
