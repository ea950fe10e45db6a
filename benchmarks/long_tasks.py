"""`make bench-long-tasks`: tasks of functions/long_tasks that compute, with two workers beside one."""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.functions.long_tasks.client import send_requests
from headrace.functions.long_tasks.pool import WorkerPool
from headrace.functions.long_tasks.primes import count_primes
from headrace.functions.long_tasks.settings import KafkaSettings
from headrace.runtime.embedded.kafka.broker import EmbeddedKafka

PAIRS = int(os.environ.get("BENCH_ROUNDS", "5"))
TARGET = 1.7
REQUESTS = 64
_PAYLOAD = "60000"  # about 0.1 s
_PATIENCE_SECONDS = 60.0
_PORT = 8089


def main() -> int:
    """1 where the median of the pairs is below the target."""
    ratios = []
    for number in range(PAIRS):
        one, two = (asyncio.run(rate(f"{number}-{workers}", workers)) for workers in (1, 2))
        ratios.append(two / one)
        print(f"1 worker {one:6.1f}/s   2 workers {two:6.1f}/s   {ratios[-1]:.2f} times", flush=True)
    median = statistics.median(ratios)
    is_held = median >= TARGET
    print(f"median {median:.2f} times   at least {TARGET}: {'held' if is_held else 'BROKEN'}")
    return 0 if is_held else 1


async def rate(name: str, workers: int) -> float:
    """Responses a second, without the first and the last tenth: some partitions have fewer requests."""
    async with EmbeddedKafka() as kafka:
        settings = KafkaSettings(kafka.bootstrap, f"requests-{name}", f"acks-{name}", name)
        await kafka.create_topics({f"requests-{name}": 8, f"acks-{name}": 1, f"requests-{name}.dlq": 1})
        with pool(settings, workers):
            at: list[float] = []
            await send_requests(
                settings, [_PAYLOAD] * REQUESTS, _PATIENCE_SECONDS, lambda: at.append(time.monotonic())
            )
    skipped = REQUESTS // 10
    first, last = at[skipped], at[-skipped - 1]
    return (REQUESTS - 2 * skipped - 1) / (last - first)


@contextmanager
def pool(settings: KafkaSettings, workers: int) -> Iterator[None]:
    """Ready."""
    made = WorkerPool(count_primes, settings, workers)
    with tempfile.TemporaryDirectory() as folder:
        command = [*made.command, "--admin-port", str(_PORT), "--log-level", "warning"]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, env=made.environment(), stdout=log, stderr=log)
        try:
            while not _is_ready():
                if process.poll() is not None:
                    raise RuntimeError(f"it ended: {Path(folder, 'log').read_text()[-300:]}")
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
