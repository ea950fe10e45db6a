"""`headrace.testing`: deliveries after failures, messages that are produced, ranges of offsets."""

from typing import Any

import nuclio_sdk
import pytest

from headrace.testing import Message, Range, Record, run_handler


def test_a_record_that_fails_comes_again_before_those_behind_it_until_its_attempts_are_spent() -> None:
    calls: list[tuple[bytes, int]] = []

    def handler(context: Any, event: Any) -> bytes:
        calls.append((event.body, event.attempt))
        if event.body == b"bad" or (event.body == b"late" and event.attempt < 3):
            raise ValueError(f"attempt {event.attempt}")
        return bytes(event.body)

    run = run_handler(handler, [b"bad", b"late", b"good"], max_attempts=3)

    assert [body for body, _ in calls] == [b"bad"] * 3 + [b"late"] * 3 + [b"good"]
    assert [attempt for _, attempt in calls] == [1, 2, 3, 1, 2, 3, 1]
    assert [outcome.attempt for outcome in run.outcomes] == [3, 3, 1]
    assert [outcome.is_acked for outcome in run.outcomes] == [False, True, True]
    (failure,) = run.failures
    assert failure.endswith("ValueError: attempt 3")
    assert run.results == [None, b"late", b"good"]


def test_earlier_deliveries_count_among_the_attempts() -> None:
    run = run_handler(lambda *_: 1 / 0, [Record(b"", attempt=3)], max_attempts=4)
    assert [outcome.attempt for outcome in run.outcomes] == [4]


def test_of_a_batch_what_failed_comes_again_together() -> None:
    calls: list[list[tuple[int, int]]] = []

    def handler(context: Any, events: Any) -> Any:
        calls.append([(event.offset, event.attempt) for event in events])
        return [
            nuclio_sdk.Response(status_code=500 if e.offset > 1 and e.attempt == 1 else 200, event_id=e.id)
            for e in events
        ]

    run = run_handler(handler, [b""] * 4, is_batch=True, max_attempts=2)
    assert calls == [[(0, 1), (1, 1), (2, 1), (3, 1)], [(2, 2), (3, 2)]]
    assert run.acked == [0, 1, 2, 3]


def test_a_nacked_record_comes_again_and_its_first_return_acks_nothing() -> None:
    async def handler(context: Any, event: Any) -> None:
        if event.attempt == 1:
            await context.platform.explicit_nack(nuclio_sdk.QualifiedOffset.from_event(event), "not yet")

    run = run_handler(handler, [b"a"], explicit_ack_mode="enable", max_attempts=2)
    assert [(it.attempt, it.failure, it.is_acked) for it in run.outcomes] == [(2, None, True)]
    once = run_handler(handler, [b"a"], explicit_ack_mode="enable")
    assert (once.failures, once.acked) == (["not yet"], [])


def test_a_task_that_nacks_after_the_handler_has_its_record_come_again() -> None:
    async def work(context: Any, event: Any) -> None:
        if event.attempt == 1:
            raise LookupError("away")
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))

    async def handler(context: Any, event: Any) -> None:
        context.create_task(work(context, event), event)

    run = run_handler(handler, [b"a"], explicit_ack_mode="explicitOnly", max_attempts=2)
    assert (run.acked, run.outcomes[0].attempt) == ([0], 2)


def test_each_record_has_the_messages_of_all_its_deliveries() -> None:
    def handler(context: Any, event: Any) -> None:
        sent = context.produce("out", event.body, key="k")
        assert sent.result(60).partition == 0
        if event.body == b"b" and event.attempt == 1:
            raise ValueError("after it has produced")

    run = run_handler(handler, [b"a", b"b"], max_attempts=2)
    out = [Message("out", body, b"k") for body in (b"a", b"b", b"b")]
    assert run.produced == out
    assert [outcome.produced for outcome in run.outcomes] == [out[:1], out[1:]]


def test_what_a_batch_produces_is_of_all_its_records() -> None:
    run = run_handler(lambda context, _: context.produce("out", "x") and None, [b"a", b"b"], is_batch=True)
    assert [[message.value for message in outcome.produced] for outcome in run.outcomes] == [[b"x"], [b"x"]]


@pytest.mark.parametrize("is_batch", [True, False])
def test_a_record_whose_message_can_not_be_written_has_failed(is_batch: bool) -> None:
    def handler(context: Any, given: Any) -> None:
        for event in given if is_batch else [given]:
            context.produce("out" if event.offset else "closed", event.body)

    def refuse(message: Message) -> str:
        return "not authorized" if message.topic == "closed" else ""

    run = run_handler(handler, [b"a", b"b"], is_batch=is_batch, refuse_message=refuse)
    assert run.failures == ["not authorized"] * (2 if is_batch else 1)
    assert run.acked == ([] if is_batch else [1])
    assert [message.value for message in run.produced] == [b"b"]


def test_who_waits_for_a_message_that_is_refused_is_told() -> None:
    said: list[str] = []

    def handler(context: Any, event: Any) -> None:
        try:
            context.produce("out", event.body).result(60)
        except Exception as error:
            said.append(str(error))

    run_handler(handler, [b"a"], refuse_message=lambda _: "too large")
    assert said == ["too large"]


def test_ranges_come_as_a_batch_of_offsets() -> None:
    seen: list[Any] = []

    def handler(context: Any, ranges: Any) -> None:
        seen.extend((it.topic, it.shard_id, it.first_offset, it.offset, it.body, it.attempt) for it in ranges)
        seen.append(dict(context.source_options))

    options = {"kafka.bootstrap.servers": "broker:9092"}
    run = run_handler(handler, [Range(10, 19), Range(0, 4, "t", 2, attempt=2)], source_options=options)
    assert seen == [("topic", 0, 10, 19, None, 1), ("t", 2, 0, 4, None, 2), options]
    assert run.committed == {("topic", 0): 20, ("t", 2): 5}
    assert run.acked == [19, 4]


def test_a_range_is_acked_by_its_last_offset() -> None:
    async def handler(context: Any, ranges: Any) -> None:
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(ranges[0]))

    run = run_handler(handler, [Range(10, 19), Range(20, 29)], explicit_ack_mode="explicitOnly")
    assert (run.acked, run.committed) == ([19], {("topic", 0): 20})


def test_a_trigger_delivers_ranges_or_records() -> None:
    with pytest.raises(ValueError, match="some are Ranges and some are not"):
        run_handler(lambda *_: None, [b"a", Range(0, 1)])
    with pytest.raises(ValueError, match="offset 3 of topic/0 comes after a higher one"):
        run_handler(lambda *_: None, [Range(0, 4), Range(3, 5)])


def test_a_handler_without_spark_is_told_how_a_test_gives_it_some() -> None:
    (failure,) = run_handler(lambda context, _: context.spark, [b"a"]).failures
    assert failure.splitlines()[-1].startswith("AttributeError: context.spark: this test has no Spark; give")
