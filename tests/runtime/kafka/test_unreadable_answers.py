"""Answers that no broker gives: one line with its address, another connection, nothing that stands still."""

import asyncio
import struct
from io import BytesIO
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol import admin, commit, coordination, fetch, group, metadata, offset
from aiokafka.protocol.admin import ApiVersionRequest_v0, ApiVersionResponse_v0
from aiokafka.protocol.commit import OffsetCommitRequest_v2, OffsetCommitResponse_v2
from aiokafka.protocol.fetch import FetchRequest_v4, FetchResponse_v4
from aiokafka.protocol.metadata import MetadataRequest_v1, MetadataResponse_v1
from aiokafka.protocol.offset import OffsetRequest_v1, OffsetResponse_v1
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strangers import stranger

from headrace.runtime.errors import BrokerError
from headrace.runtime.kafka import protocol
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.answer_checks import AnswerDecoder, AnswerWarnings
from headrace.runtime.kafka.client import connected
from headrace.runtime.kafka.guarded_connections import guard_connections
from headrace.runtime.kafka.not_a_broker import UnreadableAnswerError
from headrace.triggers.kafka.client import epochs, topics
from headrace.triggers.kafka.group.kip848 import requests

guard_connections()
VERSIONS = [(3, 0, 1), (18, 0, 0)]
MODULES = (
    *(admin, commit, coordination, fetch, group, metadata, offset),
    *(protocol, epochs, topics, requests, requests, requests),
)
KINDS = sorted(
    {
        kind
        for module in MODULES
        for kind in vars(module).values()
        if isinstance(kind, type) and hasattr(kind, "RESPONSE_TYPE") and hasattr(kind, "SCHEMA")
    },
    key=lambda kind: (kind.__module__, kind.__name__),
)
COUNTS = st.sampled_from(
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\1", b"\2", b"\0"]
)
FRAMES = st.lists(COUNTS | st.binary(max_size=9), max_size=12).map(b"".join)
NULL = b"\xff\xff\xff\xff"


def nothing(_: object) -> None:
    """Nobody hears of it."""


def read(asked: Any, frame: bytes) -> Any:
    try:
        return AnswerDecoder(asked, nothing).decode(BytesIO(frame))
    except UnreadableAnswerError as error:
        return error


@settings(max_examples=examples(900), deadline=None)
@given(kind=st.sampled_from(KINDS), frame=FRAMES)
def test_any_bytes_are_an_answer_or_one_error(kind: type[Any], frame: bytes) -> None:
    found = read(kind(**{name: [] for name in kind.SCHEMA.names}), frame)
    if isinstance(found, UnreadableAnswerError):
        assert "\n" not in str(found)
        assert len(str(found)) < 200
    else:
        assert isinstance(found, kind.RESPONSE_TYPE)


def test_a_list_that_is_null_is_unreadable_but_where_the_protocol_has_it() -> None:
    with pytest.raises(
        UnreadableAnswerError, match=r"unreadable MetadataResponse_v1 \(a list that is null\)"
    ):
        AnswerDecoder(MetadataRequest_v1([]), nothing).decode(BytesIO(NULL))
    row = (0, 0, 9, 9, None, b"")
    found = FetchResponse_v4(0, [("t", [row])])
    asked = FetchRequest_v4(-1, 0, 0, 0, 0, [("t", [(0, 5, 1)])])
    assert AnswerDecoder(asked, nothing).decode(BytesIO(found.encode())).topics == [("t", [row])]


@pytest.mark.parametrize("numbers", [[1], [0, 0], []])
def test_an_answer_about_other_partitions_is_unreadable(numbers: list[int]) -> None:
    asked: list[Any] = [OffsetCommitRequest_v2("g", 1, "m", -1, [("t", [(0, 5, "")])])]
    answers: list[Any] = [OffsetCommitResponse_v2([("t", [(number, 0) for number in numbers])])]
    asked.append(OffsetRequest_v1(-1, [("t", [(0, -1)])]))
    answers.append(OffsetResponse_v1([("t", [(number, 0, 0, 9) for number in numbers])]))
    if numbers:
        asked.append(FetchRequest_v4(-1, 0, 0, 0, 0, [("t", [(0, 5, 1)])]))
        answers.append(FetchResponse_v4(0, [("t", [(number, 0, 9, 9, [], b"") for number in numbers])]))
    for question, answer in zip(asked, answers, strict=True):
        with pytest.raises(UnreadableAnswerError, match="about other partitions than it was asked for"):
            AnswerDecoder(question, nothing).decode(BytesIO(answer.encode()))


def test_what_is_unreadable_is_said_once_and_again_if_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    said = AnswerWarnings()
    for what in ("a", "a", "b", "a"):
        said.warn(UnreadableAnswerError(what, where="broker:1"))
    assert [it.split(";")[0] for it in caplog.messages] == ["broker:1 a", "broker:1 b", "broker:1 a"]


def answering(left: list[bytes]) -> Any:
    """Such a broker: versions, then for each question about metadata the next of these; the last again."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            key, _, number = struct.unpack(">hhi", (await reader.readexactly(size))[:8])
            if key == ApiVersionRequest_v0.API_KEY:
                said = ApiVersionResponse_v0(0, VERSIONS).encode()
            else:
                said = left.pop(0) if len(left) > 1 else left[0]
            writer.write(struct.pack(">ii", len(said) + 4, number) + said)

    return answer


@pytest.mark.parametrize("said", [NULL, b"", b"\0\0\0\1\0\0\0\1\0\1\xff", b"\x7f\xff\xff\xff"])
async def test_a_command_has_one_line_of_what_cannot_be_read(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with stranger(answering([said])) as address:
        with pytest.raises(BrokerError, match=f"^{address} gives an unreadable MetadataResponse_v1"):
            async with connected(AIOKafkaAdminClient, BrokerAccess(address)):
                pass
    assert not [it for it in caplog.records if it.exc_info]


@pytest.mark.parametrize("odd", [("127.0.0.1", 2**31 - 1), ("a" * 70, 1), ("", -1)])
async def test_a_client_goes_on_after_answers_that_make_no_sense(
    odd: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    """By any of them the task that keeps its metadata would end, and the client stand still for good."""
    said: list[bytes] = []
    async with stranger(answering(said)) as address, asyncio.timeout(30):
        host, port = address.split(":")
        own = MetadataResponse_v1([(1, host, int(port), None)], 1, []).encode()
        said += [own, NULL, own, MetadataResponse_v1([(1, *odd, None)], 1, []).encode()]
        client = AIOKafkaClient(bootstrap_servers=address)
        await client.bootstrap()
        assert [await client.force_metadata_update() for _ in range(3)] == [False, True, True]
        client._conns.popitem()[1].close()
        assert await client.force_metadata_update() is False
        await client.close()
    assert not [it for it in caplog.records if it.exc_info]
    lines = [it.getMessage() for it in caplog.records if it.name.startswith("headrace")]
    assert [line.split(" (")[0] for line in lines] == [f"{address} gives an unreadable MetadataResponse_v1"]
