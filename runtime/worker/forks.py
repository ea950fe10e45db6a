"""Processes that a handler forks: they meet signals as without a worker, and touch nothing of it."""

import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeAlias

_IGNORED = (signal.SIGINT, signal.SIGTERM)

Dispositions: TypeAlias = Mapping[signal.Signals, Callable[[int, FrameType | None], Any] | int | None]


class ForkGuard:
    """Ends a process that the handler has forked, where its handler's call ends there."""

    def __init__(self) -> None:
        self._is_forked = False

    def abandon(self) -> None:
        """Say that this process is one that the handler has forked."""
        self._is_forked = True

    def end_fork(self, error: BaseException | None = None) -> None:
        """End this process if it was forked, as Python would have ended it.

        `error` is what the handler has raised.
        """
        if not self._is_forked:
            return
        # By os._exit: closing the event loop, whose inside it shares, would make its parent deaf.
        if isinstance(error, SystemExit):
            os._exit(error.code if isinstance(error.code, int) else error.code is not None)
        if error is not None:
            traceback.print_exception(error)
        os._exit(error is not None)


class _Masks(threading.local):
    def __init__(self) -> None:
        # One for each fork that has begun: a signal handler amid one may fork too.
        self.before: list[set[int | signal.Signals]] = []


def ignore_signals() -> Dispositions:
    """Have SIGINT and SIGTERM do nothing to this process from now on; return what they did before."""
    # Not SIG_IGN: what the handler starts would inherit that.
    return {signum: signal.signal(signum, _do_nothing) for signum in _IGNORED}


def restore_signals_in_forks(before: Dispositions) -> None:
    """Have signals do what they did before in each process that is forked from now on.

    Other hooks go first.
    """
    masks = _Masks()

    def hold() -> None:
        # Else one that comes before the new process is itself would be lost there.
        masks.before.append(signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED))

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before.pop())

    def restore() -> None:
        for signum, handler in before.items():
            if signal.getsignal(signum) is _do_nothing:  # else it is the handler's own
                signal.signal(signum, handler)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=restore)


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """Do nothing: it is the processor who stops a worker."""
