"""Messages that name an output: they go there, whatever the trigger has. Real workers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from worker_bench import QUICK, Bench, bench, records, until

from headrace.runtime.config.delivery_policy import DeliveryPolicy
from headrace.runtime.dispatch.interface import NOWHERE, Feed
from headrace.runtime.wire.produce import DeliveryCallback, DeliveryReport, Message

SENDS = """
    def handler(context, event):
        context.produce("out", event.body, output="archive" if event.offset % 2 else "")
"""
AWAITS = """
    async def handler(context, event):
        write(await context.produce("out", event.body, output="archive"))
"""


class Cluster(Feed):
    """Keeps Output, and Feed."""

    def __init__(self) -> None:
        self.sent: list[tuple[Message, DeliveryCallback]] = []

    def produce(self, message: Message, done: DeliveryCallback) -> None:
        self.sent.append((message, done))

    def problems(self) -> list[str]:
        return []

    async def close(self) -> None:
        """Nothing is open."""

    def end(self, written: DeliveryReport) -> None:
        """All that was sent."""
        sent, self.sent = self.sent, []
        for _, done in sent:
            done(written)

    @property
    def values(self) -> list[bytes | None]:
        return [message.value for message, _ in self.sent]


@asynccontextmanager
async def archiving(
    folder: Path, handler: str, policy: DeliveryPolicy = QUICK
) -> AsyncIterator[tuple[Bench, Cluster]]:
    archive = Cluster()
    async with bench(folder, handler, policy=policy, outputs={"archive": archive, "other": Cluster()}) as b:
        yield b, archive


async def test_a_message_goes_to_the_output_that_it_names_and_without_one_to_the_trigger(
    tmp_path: Path,
) -> None:
    async with archiving(tmp_path, SENDS) as (b, archive):
        b.dispatcher.connect(own := Cluster())
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 4))
        await until(lambda: len(own.sent) == len(archive.sent) == 2)
        await until(lambda: not partition.lane.in_flight_count)
        assert (own.values, archive.values) == ([b"0", b"2"], [b"1", b"3"])
        own.end(DeliveryReport(0, 0))
        assert partition.checkpoint.offset == 1  # what the archive hasn't confirmed isn't committed
        archive.end(DeliveryReport(0, 0))
        assert partition.checkpoint.offset == 4


async def test_what_an_output_can_not_write_fails_its_record(tmp_path: Path) -> None:
    async with archiving(tmp_path, SENDS) as (b, archive):
        b.dispatcher.connect(own := Cluster())
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 2))
        await until(lambda: own.sent and archive.sent and not partition.lane.in_flight_count)
        own.end(DeliveryReport(0, 0))
        archive.end(DeliveryReport(failure="there is no topic out"))
        assert partition.checkpoint.offset == 1
        assert partition.failed[1].reason == "there is no topic out"


async def test_a_trigger_without_brokers_has_its_outputs(tmp_path: Path) -> None:
    async with archiving(tmp_path, AWAITS) as (b, archive):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: archive.sent)
        archive.end(DeliveryReport(3, 7))
        await until(lambda: b.lines() == ["Confirmed(partition=3, offset=7)"])


async def test_a_trigger_without_brokers_fails_what_names_no_output(tmp_path: Path) -> None:
    handler = """
        async def handler(context, event):
            try:
                await context.produce("out", event.body)
            except Exception as error:
                write(error)
    """
    async with archiving(tmp_path, handler) as (b, archive):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: b.lines() == [NOWHERE])
        assert archive.sent == []


async def test_a_name_that_is_none_is_refused_at_once_with_those_that_are(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            try:
                context.produce("out", event.body, output="nope")
            except ValueError as error:
                write(error)
    """
    async with archiving(tmp_path, handler) as (b, archive):
        b.dispatcher.connect(own := Cluster())
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: partition.checkpoint.offset == 1)
        assert b.lines() == ["produce(out): the function has no output 'nope'; it has archive, other"]
        assert not own.sent
        assert not archive.sent


async def test_an_output_that_only_the_worker_knows_never_goes_to_the_trigger(tmp_path: Path) -> None:
    async with archiving(tmp_path, SENDS) as (b, archive):
        outputs = b.dispatcher._state.outputs
        assert isinstance(outputs, dict)
        del outputs["archive"]
        b.dispatcher.connect(own := Cluster())
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 2))
        await until(lambda: bool(partition.failed))
        assert partition.failed[1].reason == "the function has no output archive"
        assert own.values == [b"0"]
        assert not archive.sent


async def test_with_exactly_once_it_goes_at_once_and_holds_back_the_commit(tmp_path: Path) -> None:
    policy = replace(QUICK, exactly_once=True)
    async with archiving(tmp_path, AWAITS, policy) as (b, archive):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: archive.sent)
        assert partition.pending.outgoing_bytes == 0
        assert partition.checkpoint.offset == 0
        archive.end(DeliveryReport(0, 5))
        await until(lambda: partition.checkpoint.offset == 1)


LISTED = replace(QUICK, produce_topics=frozenset({("archive", "out")}))


async def test_a_topic_that_is_not_listed_raises_in_the_handler_and_others_are_reached(
    tmp_path: Path,
) -> None:
    handler = """
        def handler(context, event):
            for topic, output in [("out", ""), ("other", "archive"), ("out", "other"), ("out", "archive")]:
                try:
                    context.produce(topic, event.body, output=output)
                except ValueError as error:
                    write(error)
    """
    async with archiving(tmp_path, handler, LISTED) as (b, archive):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 1))
        await until(lambda: archive.sent)
        archive.end(DeliveryReport(0, 7))
        await b.settled(partition, 1)
        assert b.lines() == [
            f"produce({topic}): spec.produceTopics doesn't have {place}"
            for topic, place in [("out", "out"), ("other", "archive/other"), ("out", "other/out")]
        ]
        assert b.dispatcher.workers[0].restarts == 0


async def test_a_worker_that_sends_elsewhere_all_the_same_is_killed_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        from headrace.runtime.wire.produce import NO_LANE, Message, ProduceRequest, encode_produce

        def handler(context, event):
            if not exists("said"):
                write("", "said")
                said = ProduceRequest(0, NO_LANE, -1, Message("other", b"x"))
                os.write(int(sys.argv[1]), encode_produce(said))
                time.sleep(60)
    """
    async with archiving(tmp_path, handler, LISTED) as (b, archive):
        (partition,) = b.assign(("t", 0))
        b.feed(partition, records(0, 3))
        await b.settled(partition, 3)
        assert archive.values == []
        assert b.dispatcher.workers[0].restarts == 1
    (line,) = (it for it in caplog.messages if "says what can't be" in it)
    assert "(it produces for other, which spec.produceTopics doesn't have)" in line
