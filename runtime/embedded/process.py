"""The process of an embedded server, whatever it serves: started so that it dies with us, its end awaited."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.runtime.embedded.java import dying_with_parent
from headrace.runtime.users import OURS, ProcessUser

Process = subprocess.Popen[bytes]


def start_server(  # noqa: PLR0913  # what a process is given
    command: Sequence[str],
    output: Path,
    lock_fd: int,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str],
    umask: int = -1,
    user: ProcessUser = OURS,
) -> Process:
    """Dies with the thread that starts it, and holds its folder's lock. All that it prints is in `output`.

    `umask` is for files that others shall have; -1: as ours.
    """
    with output.open("wb") as said:
        return subprocess.Popen(
            dying_with_parent(command),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for the owner, who stops it
            pass_fds=(lock_fd,),
            umask=umask,
            user=user.uid,
            group=user.gid,
            extra_groups=user.groups,
        )
