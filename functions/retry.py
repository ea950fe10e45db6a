"""Do it until it is done, for however long what it needs is away."""

import time
from collections.abc import Callable
from typing import Any

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


def retry_until_done(
    work: Callable[[], object],
    what_is_away: Callable[[Exception], str | None],
    warning: str,
    logger: Any,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Nothing is acked before, and what comes behind it waits.

    A failed call would spend one of the messages' attempts: an outage of a minute is no fault of theirs.
    Raises an error of which `what_is_away` says nothing.
    """
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            work()
        except Exception as error:
            said = what_is_away(error)
            if said is None:
                raise
            logger.warn_with(warning, error=said)
            sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        else:
            return
