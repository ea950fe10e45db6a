"""The part of a traceback that is the user's: why a handler has failed, for people."""

import asyncio
import traceback
from pathlib import Path

_RUNTIME_FOLDER = str(Path(__file__).parent.parent.parent)
_ASYNCIO_FOLDER = str(Path(asyncio.__file__).parent)


def describe_failure(error: BaseException) -> str:
    """Return an error's traceback without the frames of this runtime, and of the event loop under it."""
    tb = error.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith((_RUNTIME_FOLDER, _ASYNCIO_FOLDER)):
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb)).rstrip()
