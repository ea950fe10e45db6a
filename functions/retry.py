"""Retries with backoff, for as long as something can't be reached."""

import time
from collections.abc import Callable
from typing import Any

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


def retry_until_done(
    work: Callable[[], object],
    describe_outage: Callable[[Exception], str | None],
    warning: str,
    logger: Any,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Call `work` until it succeeds, with pauses from 0.1 s to 5 s. Blocks.

    Nothing is acked before it returns, so messages behind this one wait. Failing instead would spend one of
    the messages' attempts, and an outage is no fault of theirs. `describe_outage` returns the text to log
    for an error that is retried, and None for any other error, which is raised.
    """
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            work()
        except Exception as error:
            # The caller knows the errors of an outage; any other would be retried forever.
            reason = describe_outage(error)
            if reason is None:
                raise
            logger.warn_with(warning, error=reason)
            sleep(pause)
            # Pauses double to spare a server that is coming back, up to a limit so that work resumes soon.
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        else:
            return
