"""Requests per second and latency of an http trigger, beside a bare aiohttp server under the same load.

wrk (apt-get install wrk) asks; all in one run, in turns. `make bench-http`; BENCH_ROUNDS=N: more turns.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
_SECONDS = 4
_CONNECTIONS = 32
_TARGET = 0.4
_PORT = 18080
_UP_SECONDS = 60.0
_BARE = """
from aiohttp import web
async def hello(request):
    return web.Response(text="hello")
application = web.Application()
application.add_routes([web.get("/", hello)])
web.run_app(application, host="127.0.0.1", port={port}, print=None, access_log=None)
"""
_HANDLER = "def handler(context, event):\n    return 'hello'\n"
_FUNCTION = """
metadata: {{name: hello}}
spec:
  handler: main:handler
  triggers: {{web: {{kind: http, numWorkers: {workers}, attributes: {{port: {port}}}}}}}
"""
_MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one turn: requests per second, percentiles in milliseconds, answers that were no 2xx or 3xx."""

    rate: float
    p50_ms: float
    p99_ms: float
    failed: int


def main() -> int:
    """0 where two workers reach the target."""
    if shutil.which("wrk") is None:
        print("wrk is missing: apt-get install wrk")
        return 2
    found: dict[str, list[Figures]] = {"bare aiohttp": [], "1 worker": [], "2 workers": []}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(_ROUNDS):
            for title, figures in found.items():
                with served(title, Path(name)) as url:
                    ask(url, 1)
                    figures.append(ask(url, _SECONDS))
    return report(found)


@contextmanager
def served(title: str, folder: Path) -> Iterator[str]:
    """One of the three, until the context ends."""
    if title == "bare aiohttp":
        command = [sys.executable, "-c", _BARE.format(port=_PORT)]
    else:
        (folder / "main.py").write_text(_HANDLER)
        (folder / "function.yaml").write_text(_FUNCTION.format(workers=title[0], port=_PORT))
        command = [sys.executable, "-m", "headrace", "run", str(folder), "--admin-port", "0"]
    url = f"http://127.0.0.1:{_PORT}/"
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_for(url, process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Until it answers."""
    give_up = time.monotonic() + _UP_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).read()
        except OSError:
            if process.poll() is not None or time.monotonic() > give_up:
                raise
            time.sleep(0.1)
        else:
            return


def ask(url: str, seconds: int) -> Figures:
    """What wrk says."""
    command = ["wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{seconds}s", "--latency", url]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    assert rate, said
    return Figures(float(rate[1]), _ms(said, 50), _ms(said, 99), int(failed[1]) if failed else 0)


def _ms(said: str, percentile: int) -> float:
    found = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", said)
    assert found, said
    return float(found[1]) * _MICROSECONDS[found[2]] / 1000


def report(found: dict[str, list[Figures]]) -> int:
    """The medians, and each beside the bare one of its own turn."""
    bare = found["bare aiohttp"]
    print(f"{_CONNECTIONS} connections, {_ROUNDS} turns of {_SECONDS} s, a trivial handler")
    print(f"{'':14}{'requests/s':>12}{'of bare':>9}{'p50 ms':>9}{'p99 ms':>9}{'failed':>8}")
    ratios = {}
    for title, figures in found.items():
        ratios[title] = statistics.median(one.rate / of.rate for one, of in zip(figures, bare, strict=True))
        print(
            f"{title:14}{statistics.median(f.rate for f in figures):12.0f}{ratios[title]:9.2f}"
            f"{statistics.median(f.p50_ms for f in figures):9.2f}"
            f"{statistics.median(f.p99_ms for f in figures):9.2f}{sum(f.failed for f in figures):8d}"
        )
    reached = ratios["2 workers"]
    is_held = reached >= _TARGET
    print(f"2 workers: {reached:.2f} of bare, target {_TARGET}: {'held' if is_held else 'BROKEN'}")
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(main())
