"""The lease on what workers hold: at its end they are ended, whatever they and their processor are doing."""

import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from batch_bench import SEES, batch_bench, fresh
from processes import is_running
from worker_bench import Bench, bench, records, until

from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.partitions.state import PartitionState
from headrace.runtime.processes import MARK
from headrace.runtime.wire.kill_list import KillList
from headrace.runtime.wire.lease import Lease, now_ns
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.workers.fence import Fence
from headrace.triggers.kafka.group.classic import membership_end_ns
from headrace.triggers.kafka.settings.model import KafkaSettings

# Holds the interpreter: nothing else in its process runs until it is over.
HOLDS_THE_INTERPRETER = """
    import ctypes

    def handler(context, event):
        write(f"{event.offset} {os.getpid()}")
        if not exists("go"):
            ctypes.PyDLL(None).sleep(60)
"""
WRITES = """
    def handler(context, event):
        write(event.offset)
"""


def in_seconds(seconds: float) -> int:
    return now_ns() + int(seconds * 1e9)


def test_a_lease_that_has_not_begun_never_ends() -> None:
    lease = Lease.create(1)
    lease.renew(in_seconds(-1))
    assert not lease.is_over
    lease.begin()
    assert lease.is_over


def test_a_lease_is_renewed_while_it_lasts_or_after_it_and_never_shortened() -> None:
    lease = Lease.create(1)
    lease.begin()
    lease.renew(in_seconds(6000))
    lease.renew(in_seconds(-60))
    assert 3000 < lease.left_seconds <= 6000


def test_a_lease_that_is_lifted_does_not_end_whatever_is_answered_late() -> None:
    lease = Lease.create(1)
    lease.begin()
    lease.lift()
    lease.renew(in_seconds(-1))
    assert not lease.is_over


def test_whoever_has_inherited_a_lease_sees_its_end_and_sweeps_once() -> None:
    lease = Lease.create(2)
    others = Lease(lease.fd)
    lease.renew(in_seconds(-1))
    lease.begin()
    assert others.is_over
    others_kills = KillList(lease.kills.fd)
    first = lease.kills.last_sweep
    with sleeper() as process:
        lease.kills.hold(1, process.pid)
        others_kills.sweep(others.ended_ns)
        assert process.wait(120) == -signal.SIGKILL
    assert lease.kills.last_sweep != first
    with sleeper() as process:
        lease.kills.hold(1, process.pid)
        others_kills.sweep(others.ended_ns)
        lease.kills.release(1)
        lease.renew(in_seconds(-0.5))
        others_kills.sweep(others.ended_ns)
        assert process.poll() is None


def test_memory_that_workers_share_is_neither_cut_short_nor_written_by_who_only_has_its_descriptor() -> None:
    lease = Lease.create(1)
    slot = ProgressSlot.create(lease)
    for fd in (lease.fd, lease.kills.fd, slot.fd):
        for size in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, size)
    ProgressSlot.take(os.dup(slot.fd), lease).leave(7)
    assert slot.read().seq == 7
    for fd in (lease.fd, slot.fd):
        with pytest.raises(PermissionError):
            os.write(fd, b"\0")
        with pytest.raises(PermissionError):
            mmap.mmap(fd, 0)
    slot.close()


async def test_a_worker_reaches_neither_its_leases_end_nor_the_list_of_whom_the_fence_kills(
    tmp_path: Path,
) -> None:
    handler = """
        import mmap

        def handler(context, event):
            entries = pathlib.Path("/proc/self/fd").iterdir()
            links = [os.readlink(entry) for entry in entries if entry.is_symlink()]
            write(sorted({link.split(":")[1].split(" ")[0] for link in links if "memfd" in link}))
            for at in range(2):
                try:
                    mmap.mmap(int(sys.argv[3]), 0)[8 * at : 8 * at + 8] = bytes(8)
                except PermissionError:
                    write("refused")
    """
    async with bench(tmp_path, handler) as b:
        [partition] = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await b.settled(partition, 1)
        assert b.lines() == ["['headrace-lease', 'headrace-progress', 'headrace-stacks']", *["refused"] * 2]
        assert not b.dispatcher.lease.is_over


def test_a_fence_never_kills_what_is_no_process_of_a_worker() -> None:
    """0 stands for its own group, 1 and -1 for all that there is."""
    lease = Lease.create(3)
    killed: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "killpg", lambda pid, _: killed.append(pid))
        for index, pid in enumerate((1, 0, 12)):
            lease.kills.hold(index, pid)
        lease.kills.kill_all()
    assert killed == [12]


def test_a_lease_that_lasts_is_not_swept() -> None:
    lease = Lease.create(1)
    before = lease.kills.last_sweep
    lease.kills.sweep(lease.ended_ns)
    lease.renew(in_seconds(60))
    lease.begin()
    lease.kills.sweep(lease.ended_ns)
    assert lease.kills.last_sweep == before


@contextmanager
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, process_group=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_sweep_spares_the_worker_that_follows_one_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease.create(1)
    lease.renew(in_seconds(-1))
    lease.begin()
    followers: list[subprocess.Popen[bytes]] = []
    kill = os.killpg

    def marked() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", "input()"]
        env = {**os.environ, MARK: f"{lease.kills.mark}0."}
        return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, process_group=0)

    def kill_and_follow(pid: int, signum: int) -> None:
        kill(pid, signum)
        followers.append(marked())  # as its processor does

    monkeypatch.setattr(os, "killpg", kill_and_follow)
    with marked() as ended, marked() as its_child:
        lease.kills.hold(0, ended.pid)
        KillList(lease.kills.fd).sweep(lease.ended_ns)
        assert (ended.wait(120), its_child.wait(120)) == (-signal.SIGKILL, -signal.SIGKILL)
    [follower] = followers
    follower.communicate(b"\n", 120)
    assert follower.returncode == 0


def freeze_until(condition: Callable[[], bool]) -> None:
    """What a frozen processor does: nothing."""
    while not condition():
        time.sleep(0.001)


async def fenced(b: Bench) -> Fence:
    fence = Fence(b.dispatcher.lease)
    fence.start()
    await until(fences)
    return fence


async def computing(b: Bench, count: int) -> tuple[AssignedPartition, int]:
    """The partition with so many records, and the process in the first of them; a second of lease is left."""
    [partition] = b.assign(("t", 0))
    b.dispatcher.lease.renew(in_seconds(600))
    b.dispatcher.lease.begin()
    b.feed(partition, records(0, count))
    await until(b.lines)
    b.dispatcher.lease.end_at(in_seconds(1))
    return partition, int(b.lines()[0].split()[1])


async def test_at_its_end_a_worker_dies_in_a_call_that_holds_the_interpreter(tmp_path: Path) -> None:
    async with bench(tmp_path, HOLDS_THE_INTERPRETER) as b:
        lease = b.dispatcher.lease
        fence = await fenced(b)
        partition, pid = await computing(b, 3)
        end = time.monotonic() + lease.left_seconds
        freeze_until(lambda: not is_running(pid))
        assert time.monotonic() >= end
        await until(lambda: b.dispatcher.workers[0].is_ready and b.dispatcher.workers[0].restarts == 1)
        assert len(b.lines()) == 1  # it is over: nothing is handed out
        (tmp_path / "go").touch()
        lease.renew(in_seconds(60))
        b.dispatcher.dispatch()
        await b.settled(partition, 3)
        assert not partition.failed  # and it was no attempt
        assert [line.split()[0] for line in b.lines()] == ["0", "0", "1", "2"]
        await fence.stop()


async def test_a_lease_is_renewed_without_the_worker_that_computes(tmp_path: Path) -> None:
    async with bench(tmp_path, HOLDS_THE_INTERPRETER) as b:
        lease = b.dispatcher.lease
        fence = await fenced(b)
        _, pid = await computing(b, 1)
        for _ in range(10):
            lease.renew(in_seconds(4))
            half_a_second_later = time.monotonic() + 0.5
            freeze_until(lambda: time.monotonic() >= half_a_second_later)  # noqa: B023  # called at once
        assert is_running(pid)
        await fence.stop()


async def test_a_worker_that_was_frozen_with_its_fence_starts_nothing_after_the_end(tmp_path: Path) -> None:
    """Only its own look at the lease can keep it from that."""
    async with bench(tmp_path, WRITES) as b:
        [partition] = b.assign(("t", 0))
        pid = b.dispatcher.workers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        b.feed(partition, records(0, 3))
        b.dispatcher.lease.renew(in_seconds(-1))
        b.dispatcher.lease.begin()
        os.kill(pid, signal.SIGCONT)
        await until(lambda: b.dispatcher.workers[0].restarts == 1)
        assert not b.lines()
        b.dispatcher.lease.renew(in_seconds(60))
        b.dispatcher.dispatch()
        await b.settled(partition, 3)
        assert b.lines() == ["0", "1", "2"]


async def test_the_record_before_the_end_is_not_blamed_for_it(tmp_path: Path) -> None:
    """Without a fence, a worker ends itself before its next record."""
    handler = """
        def handler(context, event):
            write(f"{event.offset} {event.attempt}")
            if event.offset == 0:
                wait_for("go")
    """
    async with bench(tmp_path, handler) as b:
        [partition] = b.assign(("t", 0))
        b.feed(partition, records(0, 3))
        await until(b.lines)
        b.dispatcher.lease.renew(in_seconds(-1))
        b.dispatcher.lease.begin()
        (tmp_path / "go").touch()
        await until(lambda: b.dispatcher.workers[0].restarts == 1 and b.dispatcher.workers[0].is_ready)
        assert not partition.failed
        assert partition.ledger.committable == 1
        b.dispatcher.lease.renew(in_seconds(60))
        b.dispatcher.dispatch()
        await b.settled(partition, 3)
        assert b.lines() == ["0 1", "1 1", "2 1"]


async def test_a_batch_that_was_being_planned_at_the_end_waits_for_the_next_lease(tmp_path: Path) -> None:
    async with batch_bench(tmp_path, SEES, size=3) as b:
        lease = b.bench.dispatcher.lease
        (partition,) = b.assign(*fresh(1))
        b.source.may_answer.clear()
        b.feed(3, partition)
        await until(lambda: b.source.commits)
        lease.renew(in_seconds(-1))
        lease.begin()
        b.source.may_answer.set()
        await until(lambda: partition.lane.state is PartitionState.ACTIVE)
        assert not partition.lane.in_flight_count
        lease.renew(in_seconds(60))
        b.bench.dispatcher.dispatch()
        await b.settled(3, partition)
        assert b.offsets == [[0, 1, 2]]
        assert b.bench.dispatcher.workers[0].restarts == 0


@pytest.mark.parametrize(
    ("session", "rebalance", "sent", "settled", "end"),
    [(10, 60, 5, 5, 15), (25, 7, 5, 5, 12), (25, 7, 9, 5, 12), (10, 60, 50, 5, 60), (30, 61, 55, 5, 66)],
)
def test_a_member_that_does_not_join_in_time_is_out_whatever_its_heartbeats_are_answered(
    session: float, rebalance: float, sent: int, settled: int, end: int
) -> None:
    settings = KafkaSettings(
        topics=("t",),
        brokers=("b:1",),
        consumer_group="g",
        session_timeout_seconds=session,
        rebalance_timeout_seconds=rebalance,
    )
    assert membership_end_ns(settings, sent * 10**9, settled * 10**9) == end * 10**9


async def test_a_sweep_takes_what_the_handler_has_started(tmp_path: Path) -> None:
    handler = """
        import subprocess

        def handler(context, event):
            child = subprocess.Popen(["sleep", "60"])
            write(child.pid)
            child.wait()
    """
    async with bench(tmp_path, handler) as b:
        fence = await fenced(b)
        [partition] = b.assign(("t", 0))
        b.dispatcher.lease.renew(in_seconds(60))
        b.dispatcher.lease.begin()
        b.feed(partition, records(0, 1))
        await until(b.lines)
        child = int(b.lines()[0])
        b.dispatcher.lease.end_at(in_seconds(0))
        await until(lambda: not is_running(child))
        await fence.stop()


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_fence_that_dies_is_replaced(
    tmp_path: Path, death: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench(tmp_path, WRITES) as b:
        fence = await fenced(b)
        before = set(fences())
        os.kill(next(iter(before)), death)
        await until(lambda: set(fences()) - before)
        assert "the workers have no fence (it died)" in caplog.text
        await fence.stop()
        assert not fences()


def test_a_fence_ends_whose_processor_died_before_it_ran() -> None:
    lease = Lease.create(1)
    module = "headrace.runtime.workers.fence_main"
    gone = subprocess.Popen(["true"])
    gone.wait()
    fence = subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(lease.fd), str(lease.kills.fd), str(gone.pid)],
        pass_fds=[lease.fd, lease.kills.fd],
    )
    assert fence.wait(120) == 1


def fences() -> list[int]:
    """Of this process."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [pid for pid in map(int, children) if b"workers.fence_main" in command(pid) and is_running(pid)]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""
