"""What a handler may return, as a response: each of nuclio_sdk's forms."""

import json
from typing import Any

import pytest
from nuclio_sdk import Response

from headrace.runtime.wire.reply import Reply
from headrace.runtime.worker.replies import reply_of
from headrace.runtime.worker.results import HandlerReturnedError, finish, join_generators

TEXT, JSON = "text/plain", "application/json"
FORMS: list[tuple[Any, Reply]] = [
    (None, Reply(200, TEXT, (), b"")),
    ("", Reply(200, TEXT, (), b"")),
    ("grüße", Reply(200, TEXT, (), "grüße".encode())),
    (b"\x00\xff", Reply(200, TEXT, (), b"\x00\xff")),
    (bytearray(b"ab"), Reply(200, TEXT, (), b"ab")),
    (memoryview(b"ab"), Reply(200, TEXT, (), b"ab")),
    ({"a": 1}, Reply(200, JSON, (), b'{"a": 1}')),
    ([1, "b", None], Reply(200, JSON, (), b'[1, "b", null]')),
    ([], Reply(200, JSON, (), b"[]")),
    (42, Reply(200, TEXT, (), b"42")),
    ((201, "made"), Reply(201, TEXT, (), b"made")),
    ((201, b"made"), Reply(201, TEXT, (), b"made")),
    ((204, None), Reply(204, TEXT, (), b"")),
    ((404, {"why": "gone"}), Reply(404, JSON, (), b'{"why": "gone"}')),
    ((404, ["gone"]), Reply(404, JSON, (), b'["gone"]')),
    ((200, 42), Reply(200, JSON, (), b"42")),
    ((1, 2, 3), Reply(200, TEXT, (), b"(1, 2, 3)")),
    (Response(), Reply(200, TEXT, (), b"")),
    (Response(body="text"), Reply(200, TEXT, (), b"text")),
    (Response(body=b"\xff", content_type="image/png"), Reply(200, "image/png", (), b"\xff")),
    (Response(body={"a": 1}, status_code=202), Reply(202, JSON, (), b'{"a": 1}')),
    (
        Response(headers={"x-count": 3, "x-raw": b"\xff", "x-none": None}, body="b", status_code=500),
        Reply(500, TEXT, (("x-count", b"3"), ("x-raw", b"\xff"), ("x-none", b"")), b"b"),
    ),
    (
        Response(headers={"Set-Cookie": ["a", b"b"], b"x": ("c",), "none": []}),
        Reply(200, TEXT, (("Set-Cookie", b"a"), ("Set-Cookie", b"b"), ("x", b"c")), b""),
    ),
]


@pytest.mark.parametrize(("result", "reply"), FORMS)
def test_each_form_is_a_response(result: Any, reply: Reply) -> None:
    assert reply_of(result) == reply


@pytest.mark.parametrize("status", ["200", 99, 100, 101, 199, 600, -1, None, 200.0, True])
def test_a_status_that_is_none_is_refused(status: Any) -> None:
    for result in ((status, "body"), Response(body="body", status_code=status)):
        with pytest.raises(HandlerReturnedError, match="for a status"):
            reply_of(result)


@pytest.mark.parametrize("headers", [["a: b"], "a: b", 7])
def test_headers_that_are_no_mapping_are_refused(headers: Any) -> None:
    with pytest.raises(HandlerReturnedError, match="for headers: expected a dict"):
        reply_of(Response(headers=headers))


def test_what_json_cannot_say_is_no_response() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        reply_of({"a": object()})


def test_what_a_generator_yields_is_one_body() -> None:
    assert reply_of(join_generators(item for item in ("a", b"b", None, 3))) == Reply(200, TEXT, (), b"ab3")
    assert reply_of(join_generators(item for item in "")) == Reply(200, TEXT, (), b"")
    assert reply_of(join_generators(item for item in [{"a": 1}])) == Reply(200, JSON, (), b'{"a": 1}')


def test_a_generators_first_response_says_what_it_is() -> None:
    items = [Response({"x": "y"}, "a", "text/csv", 201), Response({"x": "z"}, "b", "text/html", 202), "c"]
    assert reply_of(join_generators(item for item in items)) == Reply(201, "text/csv", (("x", b"y"),), b"abc")
    outer = Response({"x": "outer"}, (item for item in items), "text/xml", 203)
    assert reply_of(join_generators(outer)) == Reply(203, "text/xml", (("x", b"outer"),), b"abc")


async def test_an_async_generator_is_joined_where_somebody_waits_for_it_and_read_through_elsewhere() -> None:
    seen: list[int] = []

    async def items() -> Any:
        for n in range(3):
            seen.append(n)
            yield str(n)

    assert reply_of(await finish(items(), keeps_items=True)) == Reply(200, TEXT, (), b"012")
    response = Response(body=items(), status_code=201)
    assert reply_of(await finish(response, keeps_items=True)) == Reply(201, TEXT, (), b"012")
    assert await finish(response := Response(body=items())) is response
    assert seen == [0, 1, 2] * 3


def test_a_list_of_a_batch_keeps_the_id_of_each_response() -> None:
    one, two = join_generators(
        [Response(body=(c for c in "ab"), event_id="1"), Response(body="c", event_id="2")]
    )
    assert (one.event_id, one.body, two.event_id, two.body) == ("1", b"ab", "2", "c")
    assert json.loads(reply_of(join_generators([1, 2])).body) == [1, 2]
