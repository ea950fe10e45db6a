"""`headrace.testing`: a handler's records are judged as a processor and its workers judge them."""

import asyncio
import importlib.util
import os
import textwrap
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import nuclio_sdk
import pytest
from root import ROOT
from worker_bench import bench, records, until

from headrace.runtime.config.delivery_policy import AckMode, DeliveryPolicy
from headrace.runtime.dispatch.ack_router import AckRouter
from headrace.testing import HandlerNotLoadedError, LogLine, Record, run_handler

EXAMPLES = ROOT / "examples"


def example(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_under_test", EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_handler_sees_records_as_events_and_its_returns_ack_them() -> None:
    seen = []

    def handler(context: Any, event: Any) -> Any:
        seen.append((event.id, event.body, event.key, event.headers, event.attempt, event.timestamp))
        return context.Response(body=event.body.upper())

    record = Record(b"b", key=b"k", headers=[("h", b"1")], topic="t", partition=2, offset=41, attempt=3)
    run = run_handler(handler, [b"a", record, b"c"])

    assert seen == [
        ("topic/0/0", b"a", None, {}, 1, None),
        ("t/2/41", b"b", b"k", {"h": b"1"}, 3, None),
        ("topic/0/1", b"c", None, {}, 1, None),
    ]
    assert [result.body for result in run.results] == [b"A", b"B", b"C"]
    assert all(outcome.is_acked for outcome in run.outcomes)
    assert run.committed == {("topic", 0): 2, ("t", 2): 42}
    assert run.failures == []


def test_a_failure_keeps_its_record_open_and_the_others_are_handled() -> None:
    def handler(context: Any, event: Any) -> Any:
        if event.body == b"bad":
            raise ValueError("cannot read this")
        return (503, "away") if event.body == b"busy" else event.body

    run = run_handler(handler, [b"1", b"bad", b"2", Record(b"3", partition=1), b"busy", b"4"])

    assert run.results == [b"1", None, b"2", b"3", (503, "away"), b"4"]
    assert [outcome.is_acked for outcome in run.outcomes] == [True, False, True, True, False, True]
    assert run.committed == {("topic", 0): 1, ("topic", 1): 1}
    raised, refused = run.failures
    assert raised.splitlines()[-1] == "ValueError: cannot read this"
    assert __file__ in raised
    assert "headrace/" not in raised.replace(__file__, "")
    assert "status 503" in refused


def test_what_comes_back_behind_a_failure_is_handled_once_after_what_was_under_way() -> None:
    calls: list[tuple[bytes, int]] = []

    def handler(context: Any, event: Any) -> None:
        calls.append((event.body, event.attempt))
        if event.body == b"a1":
            raise ValueError("no")

    records: list[bytes | Record] = [
        b"a0",
        b"a1",
        Record(b"a2", attempt=2),
        Record(b"b0", partition=1),
        b"a3",
    ]
    run = run_handler(handler, records)
    assert calls == [(b"a0", 1), (b"a1", 1), (b"b0", 1), (b"a2", 2), (b"a3", 1)]
    assert (run.acked, run.committed) == ([0, 2, 0, 3], {("topic", 0): 1, ("topic", 1): 1})


def test_without_records_nothing_is_called() -> None:
    for is_batch in (False, True):
        run = run_handler(lambda *_: 1 / 0, [], is_batch=is_batch)
        assert (run.outcomes, run.committed) == ([], {})


async def test_an_async_handler_may_be_tested_inside_a_running_loop() -> None:
    async def init_context(context: Any) -> None:
        context.user_data.lock = asyncio.Lock()

    async def handler(context: Any, event: Any) -> bytes:
        async with context.user_data.lock:
            await asyncio.sleep(0)
            return bytes(event.body)

    run = run_handler(handler, [b"a", b"b"], init_context=init_context)
    assert (run.results, run.acked) == ([b"a", b"b"], [0, 1])


def test_no_ack_leaves_a_record_open_only_where_the_mode_lets_it() -> None:
    def handler(context: Any, event: Any) -> Any:
        response = context.Response()
        if event.offset == 1:
            response.ensure_no_ack()
        return response

    assert run_handler(handler, [b""] * 3).acked == [0, 1, 2]
    assert run_handler(handler, [b""] * 3, explicit_ack_mode="enable").acked == [0, 2]
    assert run_handler(handler, [b""] * 3, explicit_ack_mode="explicitOnly").acked == []


@pytest.mark.parametrize("is_cumulative", [True, False])
def test_explicit_acks_from_tasks_and_threads_count(is_cumulative: bool) -> None:
    async def handler(context: Any, event: Any) -> None:
        offset = nuclio_sdk.QualifiedOffset.from_event(event)
        acking = context.platform.explicit_ack(offset)
        if event.offset == 1:
            context.user_data.task = asyncio.create_task(acking)
        elif event.offset == 2:
            thread = threading.Thread(target=asyncio.run, args=(acking,))
            thread.start()
            thread.join()
        else:
            acking.close()

    run = run_handler(handler, [b""] * 4, explicit_ack_mode="explicitOnly", is_cumulative=is_cumulative)
    assert run.acked == ([0, 1, 2] if is_cumulative else [1, 2])
    assert run.committed == {("topic", 0): 3 if is_cumulative else 0}


def test_an_ack_where_returning_acks_does_nothing_as_in_a_worker() -> None:
    async def handler(context: Any, event: Any) -> None:
        await context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))

    run = run_handler(handler, [b"", b""])
    assert run.failures == []
    (line,) = run.logs
    assert "explicitAckMode is disable" in line.message


def test_an_ack_of_what_is_not_here_is_no_ack() -> None:
    answers = []

    async def handler(context: Any, event: Any) -> None:
        for partition, offset in ((0, 7), (5, 0)):
            elsewhere = nuclio_sdk.QualifiedOffset(event.topic, partition, offset)
            answers.append(await context.platform.explicit_ack(elsewhere))

    run = run_handler(handler, [b"", b""], explicit_ack_mode="explicitOnly")
    assert answers[:2] == [True, False]
    assert (run.acked, run.committed) == ([], {("topic", 0): 0})


def test_a_batch_is_one_call_and_its_responses_speak_for_their_records() -> None:
    calls = []

    def handler(context: Any, events: Any) -> Any:
        calls.append([event.id for event in events])
        return [nuclio_sdk.Response(status_code=500 if e.body == b"bad" else 200) for e in events]

    def answering(context: Any, events: Any) -> Any:
        responses = handler(context, events)
        for response, event in zip(responses, events, strict=True):
            response.event_id = event.id
        return responses[:-1]

    records: list[bytes | Record | None] = [b"a", b"bad", Record(b"b", partition=1), b"c"]
    run = run_handler(answering, records, is_batch=True)
    assert calls == [["topic/0/0", "topic/0/1", "topic/1/0", "topic/0/2"]]
    assert [outcome.is_acked for outcome in run.outcomes] == [True, False, True, False]
    assert "status 500" in run.failures[0]
    assert "event_id" in run.failures[1]
    assert len(run_handler(lambda *_: 1 / 0, records, is_batch=True).failures) == 4


@pytest.mark.parametrize("change", ["reverse", "pop", "clear"])
def test_a_batch_handler_may_change_its_list(change: str) -> None:
    def handler(context: Any, events: Any) -> Any:
        answers = [nuclio_sdk.Response(status_code=500 if e.body == b"bad" else 200) for e in events]
        for answer, event in zip(answers, events, strict=True):
            answer.event_id = event.id
        getattr(events, change)()
        return answers

    run = run_handler(handler, [b"bad", b"a", b"b"], is_batch=True)
    assert [outcome.is_acked for outcome in run.outcomes] == [False, True, True]
    assert all(len(outcome.result) == 3 for outcome in run.outcomes)


def test_logs_are_kept_and_prints_stay_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def handler(context: Any, event: Any) -> None:
        context.logger.debug("d")
        context.logger.info_with("got it", size=event.size)
        print("printed")  # noqa: T201

    run = run_handler(handler, [b"abc"])
    assert run.logs == [LogLine("debug", "d", {}), LogLine("info", "got it", {"size": 3})]
    assert capsys.readouterr().out == "printed\n"


def test_what_init_context_raises_ends_the_test_with_its_traceback() -> None:
    def init_context(context: Any) -> None:
        raise LookupError("no settings")

    with pytest.raises(HandlerNotLoadedError, match=r"init_context raised, in your code:\n.*") as raised:
        run_handler(lambda *_: None, [b""], init_context=init_context)
    assert "LookupError: no settings" in str(raised.value)


def test_tasks_that_never_end_are_cancelled() -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def handler(context: Any, event: Any) -> None:
        context.user_data.task = asyncio.create_task(forever())

    assert run_handler(handler, [b""], background_seconds=0.01).failures == []
    assert cancelled == [True]


def test_offsets_do_not_go_back() -> None:
    with pytest.raises(ValueError, match="offset 3 of topic/0 comes after a higher one"):
        run_handler(lambda *_: None, [Record(b"", offset=4), Record(b"", offset=3)])


def test_the_examples_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    sums = example("explicit_ack/sums.py")
    numbers = [b"1", b"2", b"3", b"4"]
    run = run_handler(sums.handler, numbers, init_context=sums.init_context, explicit_ack_mode="enable")
    assert (run.acked, run.committed) == ([0, 1, 2], {("topic", 0): 3})
    run.context.platform.drain_callback()
    assert capsys.readouterr().out == (
        "three numbers, 6 in all\n1 numbers wait for a third; they come again, here or elsewhere\n"
    )
    lookups = example("late_acks/lookups.py")
    run = run_handler(lookups.handler, [b"Ada"], explicit_ack_mode="explicitOnly")
    assert run.acked == [0]
    orders = example("dead_letters/orders.py")
    run = run_handler(
        orders.handler, [b"{", b'{"customer": "a", "amount": 2}'], init_context=orders.init_context
    )
    assert run.acked == [1]
    assert run.context.user_data.totals == {"a": 2}


MIXED = """
    import nuclio_sdk

    def handler(context, event):
        response = context.Response()
        if event.offset % 3:
            response.ensure_no_ack()
        if event.offset == 4:
            acking = context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
            asyncio.get_event_loop().run_until_complete(acking)
        return response
"""


async def test_what_is_open_is_what_a_processor_would_hold_open(tmp_path: Path) -> None:
    policy = DeliveryPolicy(ack_mode=AckMode.ENABLE)
    async with bench(tmp_path, MIXED, policy=policy, static=True, router=AckRouter()) as b:
        (partition,) = b.assign(("topic", 0))
        b.feed(partition, records(0, 10))
        await until(lambda: len(partition.awaiting_ack) == 5 and not partition.lane.in_flight_count)
        held = [offset for offset in range(10) if partition.ledger.is_open(offset)]

    module: dict[str, Any] = {}
    exec("import asyncio\n" + textwrap.dedent(MIXED), module)
    run = run_handler(module["handler"], [b""] * 10, explicit_ack_mode="enable")
    assert [outcome.offset for outcome in run.outcomes if not outcome.is_acked] == held == [1, 2, 5, 7, 8]


def test_what_a_handler_forks_does_not_ack_for_it() -> None:
    def handler(context: Any, event: Any) -> None:
        if event.offset == 1 and not (child := os.fork()):
            acking = context.platform.explicit_ack(nuclio_sdk.QualifiedOffset.from_event(event))
            asyncio.run(acking)
            os._exit(0)
        elif event.offset == 1:
            os.waitpid(child, 0)

    run = run_handler(handler, [b""] * 3, explicit_ack_mode="explicitOnly")
    assert run.acked == []


def test_nuclio_can_be_imported_by_what_is_tested() -> None:
    assert importlib.import_module("nuclio") is nuclio_sdk


def calls_audit(context: Any, event: Any) -> Any:
    return context.platform.call_function("audit", event, timeout=1).body


async def calls_audit_async(context: Any, event: Any) -> Any:
    return (await context.platform.call_function_async("audit", event)).body


@pytest.mark.parametrize("handler", [calls_audit, calls_audit_async])
def test_other_functions_are_called_as_the_test_says(handler: Any) -> None:
    def audit(name: str, event: Any) -> nuclio_sdk.Response:
        return nuclio_sdk.Response(body=(name, event.body))

    run = run_handler(handler, [b"a", b"b"], call_function=audit)
    assert run.results == [("audit", b"a"), ("audit", b"b")]


@pytest.mark.parametrize("handler", [calls_audit, calls_audit_async])
def test_a_call_that_the_test_says_nothing_of_raises_in_one_line(handler: Any) -> None:
    (failure,) = run_handler(handler, [b"a"]).failures
    assert failure.splitlines()[-1].startswith("RuntimeError: call_function('audit'): no other function runs")


def test_init_context_may_call_functions_too() -> None:
    def init_context(context: Any) -> None:
        context.user_data.said = context.platform.call_function("audit", None)

    run = run_handler(calls_audit, [], init_context=init_context, call_function=lambda name, _: name)
    assert run.failures == []


def test_a_message_may_name_any_output() -> None:
    def handler(context: Any, event: Any) -> None:
        context.produce("totals", event.body, output="archive")

    (message,) = run_handler(handler, [b"1"]).produced
    assert (message.topic, message.value, message.output) == ("totals", b"1", "archive")
