"""A record that runs longer than maxProcessingTime pauses the fetch of its partition, until it has ended."""

from dataclasses import replace
from pathlib import Path

from worker_bench import QUICK, bench, records, until

from headrace.runtime.dispatch.monitor import DispatchMonitor
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics


async def test_what_ended_before_a_long_record_does_not_end_its_pause(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write(event.offset)
            if event.offset == 1:
                wait_for("go")
    """
    policy = replace(QUICK, max_processing_time_seconds=0.0)
    async with bench(tmp_path, handler, policy=policy) as b:
        (p,) = b.assign(("t", 0))
        b.expect_quick_handlers()
        b.feed(p, records(0, 3))  # one run: that its first record has ended is told with its last
        await until(lambda: b.lines() == ["0", "1"])
        warnings = DispatchMonitor(b.dispatcher, TriggerMetrics(b.metrics, "", "f", "kafka-cluster", "t"))
        warnings.look()
        b.dispatcher.sync_progress()
        assert p.is_paused
        (tmp_path / "go").touch()
        await b.settled(p, 3)
        assert not p.is_paused
