"""`headrace` as a person types it, and the one line that says what is wrong."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO

from forked import PROGRAM, Forked, is_to_fork


def run(
    *arguments: str, seconds: float = 120, program: Sequence[str] = PROGRAM
) -> "subprocess.CompletedProcess[str]":
    """`headrace` with these arguments, to its end."""
    if arguments[:1] == ("run",) and "--admin-port" not in arguments:
        arguments += ("--admin-port", "0")  # the default one may be another test's
    if not is_to_fork(program, os.environ):
        command = [*program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = Forked(arguments, output, errors, os.environ, start_new_session=False)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        said = [_text_of(it) for it in (output, errors)]
    return subprocess.CompletedProcess(process.args, code, *said)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def one_line(result: "subprocess.CompletedProcess[str]", code: int) -> str:
    """The error that a person sees: one line, no traceback."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]
