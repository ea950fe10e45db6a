"""How late handlers of cron triggers begin: 80 firings of an interval and 20 of a schedule, at the same time.

From the nominal time of a firing, known to the millisecond, to the first line of its handler in its worker.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WANTED = {"interval": 80, "schedule": 20}
ATTRIBUTES = {"interval": {"interval": "100ms"}, "schedule": {"schedule": "*/1 * * * * *"}}
LATE_MS = 50.0
_LIMIT_SECONDS = 120
_HANDLER = """
import time
from datetime import timezone

def handler(context, event):
    late = time.time() - event.timestamp.replace(tzinfo=timezone.utc).timestamp()
    with open("NAME.txt", "a") as file:
        file.write(f"{event.id} {late * 1000}\\n")
"""


def write_function(folder: Path, name: str) -> Path:
    """With one trigger, whose handler writes NAME.txt in the current folder."""
    own = folder / name
    own.mkdir()
    (own / "main.py").write_text(_HANDLER.replace("NAME", name))
    trigger = {"kind": "cron", "attributes": ATTRIBUTES[name]}
    document = {"metadata": {"name": name}, "spec": {"handler": "main:handler", "triggers": {name: trigger}}}
    (own / "function.yaml").write_text(json.dumps(document))
    return own


def read(folder: Path, name: str) -> list[tuple[str, float]]:
    """Id and lateness of each firing so far, at most those that are wanted."""
    path = folder / f"{name}.txt"
    text = path.read_text() if path.exists() else ""
    lines = [line.split() for line in text[: text.rfind("\n") + 1].splitlines()]
    return [(found, float(late)) for found, late in lines][: WANTED[name]]


def measure(folder: Path) -> dict[str, list[tuple[str, float]]]:
    """Until all have fired. Raises TimeoutError."""
    functions = [str(write_function(folder, name)) for name in WANTED]
    command = [sys.executable, "-P", "-m", "headrace", "run", *functions, "--admin-port", "0"]
    deadline = time.monotonic() + _LIMIT_SECONDS
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            while any(len(read(folder, name)) < count for name, count in WANTED.items()):
                if time.monotonic() > deadline or process.poll() is not None:
                    raise TimeoutError((folder / "log.txt").read_text())
                time.sleep(0.5)
        finally:
            process.terminate()
            process.wait()
    return {name: read(folder, name) for name in WANTED}


def main() -> None:
    """A table, and each firing that was late."""
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name))
    print(
        f"{'ms late':12}" + "".join(f"{column:>9}" for column in ("firings", "min", "median", "p90", "max"))
    )
    for name, firings in found.items():
        late = sorted(ms for _, ms in firings)
        shown = (late[0], statistics.median(late), late[int(len(late) * 0.9)], late[-1])
        print(f"{name:12}{len(late):>9}" + "".join(f"{ms:>9.1f}" for ms in shown))
    slow = [(fired, ms) for firings in found.values() for fired, ms in firings if ms > LATE_MS]
    print(f"later than {LATE_MS:.0f} ms: {len(slow)}")
    for fired, ms in slow:
        print(f"  {fired}  {ms:.1f} ms  <-- late")


if __name__ == "__main__":
    main()
