"""A process that a handler forks: it meets signals as it would have without a worker."""

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeAlias

_LEFT_ALONE = (signal.SIGINT, signal.SIGTERM)

Dispositions: TypeAlias = Mapping[signal.Signals, Callable[[int, FrameType | None], Any] | int | None]


class _Masks(threading.local):
    def __init__(self) -> None:
        self.before: list[set[int | signal.Signals]] = []
        """Of each fork that has begun: a signal handler amid one may fork too."""


def leave_signals_alone() -> Dispositions:
    """SIGINT and SIGTERM do nothing to this process from now on; what they did before."""
    # Not SIG_IGN: what the handler starts would inherit that.
    return {signum: signal.signal(signum, _do_nothing) for signum in _LEFT_ALONE}


def give_back_in_forks(before: Dispositions) -> None:
    """Signals do this again in each process that is forked from now on. Other hooks go first."""
    masks = _Masks()

    def hold() -> None:
        # Else one that comes before the new process is itself would be lost there.
        masks.before.append(signal.pthread_sigmask(signal.SIG_BLOCK, _LEFT_ALONE))

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before.pop())

    def give_back() -> None:
        for signum, handler in before.items():
            if signal.getsignal(signum) is _do_nothing:  # else it is the handler's own
                signal.signal(signum, handler)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=give_back)


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """Of a worker, which its processor stops."""
