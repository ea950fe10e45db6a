"""The process of which `forked.py` has `headrace` forked: it has imported what each command imports.

It has one thread, and what it forks runs `python -m headrace`, to the end of the interpreter.
"""

import contextlib
import fcntl
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from typing import Any

from forked import SIGNALS

import headrace.runtime.cli.kafka.commands
import headrace.runtime.cli.kafka.dead_letters
import headrace.runtime.cli.run
import headrace.runtime.cli.running.invoke
import headrace.runtime.cli.running.status
import headrace.runtime.cli.validate
import headrace.runtime.processor.run  # noqa: F401

_FREE = 200
"""File descriptors from here on are nobody's: none of a child's own has such a number."""


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns in each child alone: what it is to run, and its files."""
    waiting = selectors.DefaultSelector()
    waiting.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.data is None:
                message, files, *_ = socket.recv_fds(control, 1 << 20, 32)
                if not message:
                    os._exit(0)  # whoever tests is gone
                if not (pid := os.fork()):
                    _close_all(waiting, control)
                    return json.loads(message), files
                told = socket.socket(fileno=files[0])
                for file in files[1:]:
                    os.close(file)
                told.send(str(pid).encode())
                waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
            else:
                pid, told = key.data
                waiting.unregister(key.fd)
                os.close(key.fd)
                _, status, used = os.wait4(pid, 0)
                code = os.waitstatus_to_exitcode(status)
                with told, contextlib.suppress(OSError):  # nobody may wait for it
                    told.send(json.dumps([code, used.ru_utime + used.ru_stime]).encode())


def _close_all(waiting: selectors.BaseSelector, control: socket.socket) -> None:
    """What is the server's own, in a child."""
    for key in [*waiting.get_map().values()]:
        if key.data is not None:
            os.close(key.fd)
            key.data[1].close()
    waiting.close()
    control.close()


def _become(wanted: dict[str, Any], files: list[int]) -> None:
    """As if it had been started so."""
    if wanted["new_session"]:
        os.setsid()
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, _FREE) for file in files[1:]]
    for file in files:
        os.close(file)
    for file, number in zip(moved, (1, 2, *wanted["files"]), strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    for number in SIGNALS:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in wanted["ignored"] else default)
    sys.argv[1:] = wanted["arguments"]


gc.collect()
gc.freeze()
_become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
runpy.run_module("headrace", run_name="__main__", alter_sys=True)
