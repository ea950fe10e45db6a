"""`headrace` as a person types it, and the one line that says what is wrong."""

import subprocess
from collections.abc import Sequence

from replica import PROGRAM


def run(
    *arguments: str, seconds: float = 120, program: Sequence[str] = PROGRAM
) -> "subprocess.CompletedProcess[str]":
    """`headrace` with these arguments, to its end."""
    command = [*program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def one_line(result: "subprocess.CompletedProcess[str]", code: int) -> str:
    """The error that a person sees: one line, no traceback."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]
