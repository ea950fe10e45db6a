"""Users of this machine: find one, start processes as one, see what one can reach and what one serves."""

import ctypes
import os
import pwd
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple, TypeVar

from headrace.runtime.errors import UsageError

T = TypeVar("T")

OPTION = "--worker-user"
"""Option that names the user of workers; HEADRACE_WORKER_USER says the same."""

_SOCKET_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING = "0A"
_LOOPBACK = ("127.0.0.1", "::1")
_PR_SET_NO_NEW_PRIVS = 38
# Bits of a process's capabilities.
_NEEDED = {"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
# With one of them a process looks into another one of its user that keeps to itself; by the last two, which
# newer kernels take, into its environment alone.
_LOOK_INTO = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_PERFMON": 38}
# Prints the first of its arguments that can't be read, and where on the way there it ends.
_LOOK = """
import os, sys
for path in sys.argv[1:]:
    steps = path.split("/")
    ways = ["/".join(steps[:end]) for end in range(2, len(steps))]
    closed = next((way for way in ways if not os.access(way, os.X_OK)), None)
    if closed is None and not os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK):
        closed = path
    if closed:
        print(path, closed, sep="\\0", end="")
        sys.exit(1)
"""


@dataclass(frozen=True, slots=True)
class ProcessUser:
    """User as whom a process is started. None is for `subprocess.Popen`, which then changes nothing."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that say who the user is: HOME, USER, LOGNAME."""

    @property
    def is_another(self) -> bool:
        """Whether the user is another one than this process's."""
        return self.uid is not None

    def give(self, path: Path) -> None:
        """Make the user the owner of a folder, with all in it, that only we can write yet. Raises OSError."""
        if self.uid is not None and self.gid is not None:
            # The outermost folder last: until then nobody else gets in.
            for folder, folders, files in os.walk(path, topdown=False):
                for name in (*files, *folders):
                    os.chown(Path(folder, name), self.uid, self.gid, follow_symlinks=False)
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def check_reach(self, paths: Iterable[Path]) -> None:
        """Raise UsageError for the first file or folder that the user can't read. Blocks for some 20 ms."""
        if not self.is_another:
            return
        import subprocess  # most commands never need it

        command = [sys.executable, "-I", "-S", "-c", _LOOK, *_ways(paths)]
        try:
            found = subprocess.run(
                command,
                user=self.uid,
                group=self.gid,
                extra_groups=self.groups,
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except PermissionError:
            raise UsageError(self._cannot_run()) from None
        if found.returncode:
            path, _, closed = found.stdout.partition("\0")
            raise UsageError(self._cannot_read(path, closed) if closed else self._cannot_run())

    def _cannot_read(self, path: str, closed: str) -> str:
        way = "" if closed == path else f": {closed} is closed to that user"
        return f"the user {self.name} of {OPTION} can't read {path}{way}"

    def _cannot_run(self) -> str:
        return (
            f"the user {self.name} of {OPTION} can't run {Path(sys.executable).resolve()}: "
            "Python and Headrace have to be where that user can read them"
        )


OURS = ProcessUser()
"""The user of this process."""


def _ways(paths: Iterable[Path]) -> list[str]:
    """Return the paths both as they are written and with links resolved: each has to be open to the user."""
    return list(dict.fromkeys(str(way) for path in paths for way in (path.absolute(), path.resolve())))


def find_user(name: str) -> ProcessUser:
    """Find another user as whom this process may start others. Raises UsageError."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):  # a NUL
        raise UsageError(f"{OPTION}: this machine has no user {name!r}") from None
    if found.pw_uid == 0:  # handlers as root would be no protection
        raise UsageError(f"{OPTION} {name}: that user may do everything; name one that may not")
    if os.geteuid():
        raise UsageError(f"{OPTION} {name}: only root can start processes of another user")
    capabilities = _capabilities("CapEff")
    if missing := [capability for capability, bit in _NEEDED.items() if not capabilities >> bit & 1]:
        raise UsageError(f"{OPTION} {name}: root lacks {', '.join(missing)} here; add what is missing")
    about = {"HOME": found.pw_dir, "USER": name, "LOGNAME": name}
    groups = tuple(os.getgrouplist(name, found.pw_gid))
    return ProcessUser(name, found.pw_uid, found.pw_gid, groups, about)


def ways_into_us() -> list[str]:
    """Return the capabilities that let a process of our own user look into this one. Linux only."""
    # What root executes gets all that is not barred; what others do, only what is passed on.
    capabilities = _capabilities("CapAmb" if os.geteuid() else "CapBnd")
    return [capability for capability, bit in _LOOK_INTO.items() if capabilities >> bit & 1]


def _capabilities(which: str) -> int:
    """Return one of this process's sets of capabilities as bits; 0 elsewhere than on Linux."""
    status = Path("/proc/self/status")
    found = re.search(
        rf"^{which}:\s*([0-9a-f]+)$", status.read_text() if status.exists() else "", re.MULTILINE
    )
    return int(found[1], 16) if found else 0


class Listener(NamedTuple):
    """Listening TCP socket: its address as the kernel writes it, its user, and the kernel's number."""

    address: str
    uid: int
    number: str


def listeners(port: int) -> Iterator[Listener]:
    """Yield the sockets that listen at a port, of whatever user. Linux only: elsewhere it finds none."""
    for table in _socket_tables():
        for line in table.splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].partition(":")
            if fields[3] == _LISTENING and int(number, 16) == port:
                yield Listener(address, int(fields[7]), fields[9])


def _socket_tables() -> Iterator[str]:
    for table in map(Path, _SOCKET_TABLES):
        with suppress(OSError):  # without IPv6 there is but one; and some containers hide both
            yield table.read_text()


def is_served_by_us(host: str, port: int) -> bool:
    """Whether only this user's processes can get what is sent to a loopback address, or to `localhost`.

    Where the kernel doesn't tell, as elsewhere than on Linux, the answer is yes.
    """
    if not any(_socket_tables()):
        return True
    addresses = {it for name in (_LOOPBACK if host == "localhost" else [host]) for it in _gets(name)}
    # Another user's socket may be bound to the port too, by another address, and get the requests.
    owners = {it.uid for it in listeners(port) if it.address in addresses}
    return owners == {os.geteuid()}


def _gets(host: str) -> Iterator[str]:
    """Yield the addresses, as the kernel writes them, at which a socket gets what is sent to `host`."""
    address = ip_address(host)
    # A socket that is bound to all addresses of IPv6 gets what is sent to IPv4 too.
    yield from (_as_the_kernel(address.packed), "0" * 32)
    if address.version == 4:
        yield from ("0" * 8, _as_the_kernel(ip_address(f"::ffff:{host}").packed))


def _as_the_kernel(packed: bytes) -> str:
    # Four bytes at a time, in the byte order of the machine.
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def gain_no_privileges() -> None:
    """Bar what this thread starts from gaining rights by what it executes: no sudo, no setuid program."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def look_into(pid: int, look: Callable[[], T]) -> T:
    """Return what `look` finds below /proc/PID, where the process may be another user's. Raises OSError.

    Root may look into every process, but in most containers it may not (CAP_SYS_PTRACE): there it looks as
    the owner of the process, who may.
    """
    try:
        return look()
    except PermissionError:
        if os.geteuid():
            raise
        with _files_as_owner_of(pid):
            return look()


@contextmanager
def _files_as_owner_of(pid: int) -> Iterator[None]:
    """Access files, in this thread and while the context lasts, as the user of that process."""
    libc, owner = ctypes.CDLL(None, use_errno=True), os.stat(f"/proc/{pid}")  # noqa: PTH116  # hundreds of times
    libc.setfsgid(owner.st_gid)
    libc.setfsuid(owner.st_uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
