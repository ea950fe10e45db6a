"""v3io-away: replicas that are frozen or cut off for longer than their session, and then go on."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from history import Entry
from judge import Allowed, Evidence, judge
from load import LONG_AT_TIMES, pause
from proxy import Proxy
from replica import Replica, frozen, wait_until
from scenario import Report
from v3io_kills import wait_done
from v3io_load import Watch, producing, watched
from v3io_scene import V3ioScene, v3io_scene

from headrace.runtime.embedded.ports import free_port

REPLICAS, RUNNING, SHARDS, WORKERS, RATE = 3, 4, 12, 2, 350
SESSION_SECONDS = 3.0
GROUP = {"sessionTimeout": f"{SESSION_SECONDS:g}s", "heartbeatInterval": "300ms"}
STALL_SECONDS = 3 * (SESSION_SECONDS + 3)


class Away:
    """Each replica has a way to the server of its own, which can be cut. One more than there are shares."""

    def __init__(self, scene: V3ioScene, watch: Watch, stack: ExitStack) -> None:
        self.scene = scene
        self.watch = watch
        self.repeats = self.count = 0
        port = int(scene.url.rpartition(":")[2])
        self.replicas: list[tuple[Replica, Proxy]] = []
        for number in range(RUNNING):
            proxy = stack.enter_context(Proxy().running(free_port(), port))
            web_api = f"http://127.0.0.1:{proxy.port}"
            function = scene.function(
                REPLICAS, LONG_AT_TIMES, workers=WORKERS, name=f"f{number}", group=GROUP, web_api=web_api
            )
            self.replicas.append((scene.start(function), proxy))

    def one(self) -> None:
        """Any of them, frozen or cut off, one way or both ways."""
        victim, proxy = random.choice(self.replicas)
        began_ns = time.monotonic_ns()
        with random.choice([frozen(victim), cut(proxy), cut(proxy, "up"), cut(proxy, "down")]):
            pause(0.3 * SESSION_SECONDS, 2.5 * SESSION_SECONDS)
        self.count += 1
        self.repeats += WORKERS + len(self._unknown(victim, began_ns))

    def _unknown(self, victim: Replica, began_ns: int) -> list[Entry]:
        """What it had handled while it had a lease, and had not committed when somebody looked last."""
        known = [sample.offsets for sample in self.watch.commits if sample.ns <= began_ns]
        committed = known[-1] if known else {}
        end_ns = began_ns + int((SESSION_SECONDS + 1) * 1e9)
        return [
            it
            for it in self.scene.history
            if it.what == "END"
            and it.replica == victim.process.pid
            and it.ns <= end_ns
            and it.offset >= committed.get(it.key, 1)
        ]


@contextmanager
def cut(proxy: Proxy, *directions: str) -> Iterator[None]:
    """What was sent meanwhile comes late."""
    proxy.cut(*directions)
    try:
        yield
    finally:
        proxy.mend()


def away(folder: Path, number: int, report: Report) -> None:
    """As long as the load lasts: one after the other."""
    with v3io_scene(folder, SHARDS) as scene, watched(scene, SHARDS) as watch, ExitStack() as stack:
        storm = Away(scene, watch, stack)
        wait_until(lambda: sum(map(len, scene.shares())) == SHARDS, about=scene.started[-1])
        with producing(scene, SHARDS, RATE):
            wait_until(lambda: len({it.replica for it in scene.runs}) == REPLICAS)
            ends = time.monotonic() + report.seconds
            while time.monotonic() < ends:
                storm.one()
                pause(0, 3)
        report.add_faults("freezes and cuts", storm.count, number)
        log_ends = wait_done(scene, watch, SHARDS)
        for running, _ in storm.replicas:
            report.add("exit code", running.stop(), 0, 0, number)
        all_records = {(*key, sequence) for key, end in log_ends.items() for sequence in range(1, end)}
        report.add("acknowledged, and not in the log", len(scene.produced - all_records), 0, 0, number)
        evidence = Evidence(all_records, log_ends, scene.history, watch.commits)
        cut_off = (WORKERS + 1) * storm.count
        judge(evidence, Allowed(storm.repeats, cut_off, stall_seconds=STALL_SECONDS), report, number)
        lost = sum(len(it.log_times("others have shards of member")) for it in scene.started)
        report.add("members that had to begin anew", lost, 0, storm.count, number)
        report.add("L4 shards of two sessions at a time", len(watch.doubly_owned()), 0, 0, number)
