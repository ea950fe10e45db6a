"""Processes: how they end, whose their files and memory are, and which variables they inherit.

None outlives its parent, and none leaves its children behind.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from headrace.runtime.users import look_into

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 16 << 20
MARK = "HEADRACE_WORKER"
"""Environment variable that everything a worker starts inherits: its value tells whose it is."""
_MAX_ROUNDS = 20  # a process may fork before its turn comes
PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "NUCLIO_PYTHON_*"),
    *("JAVA_HOME", "SPARK_*", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "CUDA_*"),
)
"""Names of variables that workers inherit; a `*` at the end stands for any rest.

docs/operate/security.md lists them. Secrets of ours are not among them.
"""
FOR_TRACES = ("OTEL_*",)
"""Names of variables for tracing that workers inherit too: where spans go, and with which headers."""
PASSED_TO_JAVA = (
    *PASSED_ON,
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SSL_CERT*"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("HADOOP_*", "YARN_CONF_DIR", "KUBECONFIG", "KUBERNETES_SERVICE_*"),  # clusters that Spark may run on
)
"""Names of variables that embedded servers and their tools inherit.

A proxy and its certificate may be between them and the jars that they download.
"""

_PRIVATE = 0o077  # umask: nothing for the group, nothing for others
_handlers_umask = -1


def keep_files_private() -> None:
    """Make files that this process and its servers write readable for their user alone. Idempotent."""
    global _handlers_umask  # noqa: PLW0603  # a process has one umask
    given = os.umask(_PRIVATE)
    if _handlers_umask < 0:
        _handlers_umask = given


def write_for_others() -> None:
    """Give files that this process writes from now on the umask that it was started with."""
    if _handlers_umask >= 0:
        os.umask(_handlers_umask)


def handlers_umask() -> int:
    """Return the umask for handlers, as `subprocess.Popen` takes it; -1 for no change.

    Handlers' files get the umask of whoever started us, whatever we use for our own files.
    """
    return _handlers_umask


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it is gone.

    Holds however the parent dies, and however deep in a C call this process is. Linux only: elsewhere it does
    nothing, and the end of the socket has to do.
    """
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    # It takes this process alone: what a handler has started is the fence's to end.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent died before we asked


def keep_to_itself() -> None:
    """Have other processes of the same user read neither this one's environment nor its memory nor its files.

    Who has CAP_SYS_PTRACE can, as root often has: users.ways_into_us. What this process starts begins anew.
    Linux only: elsewhere it does nothing.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0)


def keep_freed_memory() -> None:
    """Have malloc keep some MiB of what is freed, for what comes next. Of glibc's; others do what they do.

    By itself it gives the end of its heap back at 128 KiB, and batches are larger: each would be given its
    memory anew, page by page, which takes ten times as long as to decode it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES // 2)


def stop_signals() -> list[signal.Signals]:
    """Return SIGINT, SIGTERM, and, except under nohup, SIGHUP, which a closed terminal sends."""
    has_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if has_nohup else [signal.SIGHUP])]


def stop_at_once() -> None:
    """Have `stop_signals` end this process, which has nothing yet to give back, with exit code 0."""
    for number in stop_signals():
        signal.signal(number, _stop_at_once)


def _stop_at_once(number: int, _: object) -> NoReturn:
    # Not by an exception: it would be raised in whatever module is being imported.
    os.write(2, f"headrace: {signal.Signals(number).name}: stopped, before anything was started\n".encode())
    os._exit(0)


def die() -> NoReturn:
    """End this process, a worker, and whatever the handler started in its group."""
    with contextlib.suppress(ProcessLookupError):  # a process that the handler has forked leads no group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def kill_marked(mark: str, but: str = "") -> None:
    """Send SIGKILL to each process whose MARK begins with `mark`, in whatever group, session or parent it is.

    Not to those whose MARK begins with `but`, where that is given, that were started with another
    environment, or that belong to somebody whose processes we may not end. Reads all of /proc: some ms on a
    machine with hundreds of processes. Does nothing elsewhere than on Linux.
    """
    needles = _needle(mark), _needle(but) if but else None
    killed: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        found = [pid for pid in _all_pids() if pid not in killed and _kill_if_marked(pid, *needles)]
        if not found:
            return
        killed.update(found)


def _all_pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal())


def _needle(mark: str) -> bytes:
    return f"\0{MARK}={mark}".encode()


def _kill_if_marked(pid: int, needle: bytes, but: bytes | None) -> bool:
    with contextlib.suppress(OSError):
        if not _has(pid, needle, but):
            return False
        # A pidfd stays with its process: the signal can't hit another one that got the number later.
        handle = os.pidfd_open(pid)
        try:
            if _has(pid, needle, but):  # again: the number may have changed hands before the pidfd was there
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _has(pid: int, needle: bytes, but: bytes | None) -> bool:
    # A variable begins behind a zero byte, the first one too then.
    found = b"\0" + look_into(pid, lambda: _environment(pid))
    return needle in found and (but is None or but not in found)


def _environment(pid: int) -> bytes:
    with open(f"/proc/{pid}/environ", "rb", buffering=0) as environment:  # noqa: PTH123  # hundreds of times
        return environment.readall()


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or a debugger."""
    with contextlib.suppress(OSError):
        # Behind the last parenthesis: the name of the program may hold some.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in {b"T", b"t"}
    return False


def describe_exit(code: int) -> str:
    """Return `exit code 1`, or `signal SIGKILL`, for a return code of `subprocess`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal: most have no name
        return f"signal {-code}"


def picked(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the variables of these names; each name is written as in PASSED_ON."""
    exact = set(names)
    starts = tuple(name[:-1] for name in exact if name.endswith("*"))
    return {key: value for key, value in environment.items() if key in exact or key.startswith(starts)}


def for_java() -> dict[str, str]:
    """Return the environment for an embedded server, and for what prepares one."""
    return picked(os.environ, PASSED_TO_JAVA)
