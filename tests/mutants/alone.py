"""A plugin of pytest, `-p alone`: no test starts a process or listens anywhere. Of quick mutants.

With `--hypothesis-profile=alone` what hypothesis has found is told as it is: nobody reads it.
"""

import sys

from hypothesis import Phase, settings

_FORBIDDEN = {
    *("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"),
    "socket.bind",
}


def _refuse(event: str, _: object) -> None:
    if event in _FORBIDDEN:
        raise RuntimeError(f"{event}: a quick test does without")


settings.register_profile("alone", deadline=None, phases=(Phase.explicit, Phase.generate))
sys.addaudithook(_refuse)
