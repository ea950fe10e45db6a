"""Other systems, each in a virtual environment of its own under `.bench/`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from folders import BENCHMARKS, ROOT

_FOLDER = ROOT / ".bench"
PEERS = {
    "FastStream, batches of 500": "faststream_batch",
    "Quix Streams": "quix_streams",
    "Pyrallel-Consumer": "pyrallel_async",
}


def program(name: str) -> Path:
    """What runs the peer: BOOTSTRAP TOPIC GROUP COUNTER_FOLDER."""
    return BENCHMARKS / "peers" / f"{name}.py"


def _path() -> str:
    """Where uv looks for a Python: on PATH, and among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(root.glob("versions/*/bin")))])


def install(name: str) -> str:
    """The peer's Python. Raises RuntimeError with one line where it can't be installed."""
    folder = _FOLDER / name
    python = folder / "bin" / "python"
    if not python.exists():
        uv = str(Path(sys.executable).with_name("uv"))
        wanted = BENCHMARKS / "peers" / f"{name}.txt"
        versions = wanted.read_text().splitlines()[0].removeprefix("# python")
        try:
            _run([uv, "venv", "--quiet", "--python", versions, str(folder)], PATH=_path())
            _run([uv, "pip", "install", "--quiet", "-r", str(wanted)], VIRTUAL_ENV=str(folder))
        except RuntimeError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return str(python)


def _run(command: list[str], **env: str) -> None:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split())[:200])
