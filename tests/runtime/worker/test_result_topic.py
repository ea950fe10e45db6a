"""What a handler returns, and what goes along with a message, by the test helper: the worker's own code."""

from types import SimpleNamespace
from typing import Any

import nuclio_sdk
import pytest

from headrace.runtime.wire.produce import Message
from headrace.runtime.worker.results import ResultTopic
from headrace.testing import Record, run_handler

KEYED = [Record(b"1", key=b"a"), Record(b"2", key=b"b")]


def results(handler: Any, records: Any = KEYED, **options: Any) -> list[Message]:
    run = run_handler(handler, records, result_topic="out", **options)
    assert run.failures == []
    return list(run.produced)


@pytest.mark.parametrize(
    ("result", "values"),
    [
        (None, []),
        (b"x", [b"x"]),
        ("é", ["é".encode()]),
        ({"a": [1]}, [b'{"a": [1]}']),
        (7, [b"7"]),
        ([b"x", None, {"n": 1}], [b"x", b'{"n": 1}']),
        (nuclio_sdk.Response(body=b"x"), [b"x"]),
        (nuclio_sdk.Response(), []),
        ([], []),
    ],
)
def test_each_kind_of_result_has_its_messages(result: Any, values: list[bytes]) -> None:
    produced = results(lambda context, event: result)
    assert [(it.topic, it.value, it.key) for it in produced] == [
        ("out", value, key) for key in (b"a", b"b") for value in values
    ]


def test_generators_give_several_in_each_way_that_there_is() -> None:
    def plain(context: Any, event: Any) -> Any:
        yield event.body
        yield "more"

    async def coroutine(context: Any, event: Any) -> Any:
        return [event.body, "more"]

    async def stream(context: Any, event: Any) -> Any:
        yield event.body
        yield "more"

    for handler in (plain, coroutine, stream):
        assert [it.value for it in results(handler)] == [b"1", b"more", b"2", b"more"]


def test_a_response_has_its_headers_and_one_that_says_failed_is_not_sent() -> None:
    def handler(context: Any, event: Any) -> Any:
        if event.body == b"2":
            return context.Response(body=b"no", status_code=500)
        return context.Response(body=b"yes", headers={"kind": "x"})

    run = run_handler(handler, KEYED, result_topic="out")
    assert [(it.value, it.headers) for it in run.produced] == [(b"yes", (("kind", b"x"),))]
    assert len(run.failures) == 1
    assert run.committed == {("topic", 0): 1}


def test_in_a_batch_a_result_has_the_key_of_the_record_that_it_names() -> None:
    def handler(context: Any, events: Any) -> Any:
        return [context.Response(body=event.body, event_id=event.id) for event in events]

    assert [(it.value, it.key) for it in results(handler, is_batch=True)] == [(b"1", b"a"), (b"2", b"b")]


@pytest.mark.parametrize("is_batch", [False, True])
def test_what_says_which_trace_it_is_goes_along(*, is_batch: bool) -> None:
    trace = (("traceparent", b"00-a-b-01"), ("Baggage", b"k=v"), ("other", b"x"))

    def handler(context: Any, given: Any) -> None:
        context.produce("out", b"1", headers={"mine": "y"})
        context.produce("out", b"2", headers=[("traceparent", b"own")])

    run = run_handler(handler, [Record(b"", headers=trace)], is_batch=is_batch)
    first, second = (it.headers for it in run.produced)
    assert first == ((("mine", b"y"),) if is_batch else (("mine", b"y"), *trace[:2]))
    assert second == (("traceparent", b"own"),)


def test_a_task_has_the_headers_of_its_own_record() -> None:
    async def handler(context: Any, event: Any) -> None:
        async def work() -> None:
            context.produce("out", event.body)

        context.create_task(work(), event)

    records = [Record(bytes([n]), headers=(("traceparent", bytes([n])),)) for n in range(3)]
    run = run_handler(handler, records, explicit_ack_mode="enable")
    assert {(it.value, it.headers) for it in run.produced} == {
        (bytes([n]), (("traceparent", bytes([n])),)) for n in range(3)
    }


@pytest.mark.parametrize(
    ("produce", "says"),
    [
        (lambda context: context.produce("", b"x"), "a topic"),
        (lambda context: context.produce("out", None), "a value or a key"),
        (lambda context: context.produce("out", object()), "not JSON serializable"),
        (lambda context: context.produce("out", b"x", partition=-2), "partition"),
    ],
)
def test_what_can_not_be_a_message_is_refused_where_it_is_made(produce: Any, says: str) -> None:
    (failure,) = run_handler(lambda context, event: produce(context), [b""]).failures
    assert says in failure


def test_what_another_trigger_of_the_same_workers_is_answered_with_is_no_message() -> None:
    def nobody(topic: str, value: Any, key: Any = None, headers: Any = None) -> None:
        raise AssertionError("it is for whoever has asked")

    call = ResultTopic(lambda context, event: {"asked": event.trigger.name}, "records", "out", nobody)
    request = SimpleNamespace(trigger=SimpleNamespace(name="web"))
    assert call(None, request) == {"asked": "web"}
