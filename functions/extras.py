"""Errors that name the extra to install, where a ready-made function lacks a library."""

import importlib.util
import sys


class MissingExtraError(ImportError):
    """A library isn't installed. The message is one line, with the command that installs it."""

    def __init__(self, who: str, extra: str, missing: str) -> None:
        super().__init__(f"{who} needs {missing}: pip install 'headrace[{extra}]'", name=missing)


def require_extra(who: str, extra: str, module: str) -> None:
    """Raise MissingExtraError unless `module`, which `extra` brings, is installed. Imports nothing.

    `python -m` is ended by the line alone, without a traceback.
    """
    if _is_installed(module):
        return
    error = MissingExtraError(who, extra, module)
    # Python puts "-m" there while it looks for the module to run, and imports the packages around it.
    raise SystemExit(str(error)) if sys.argv[:1] == ["-m"] else error


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False
