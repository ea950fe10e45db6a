"""Messages packed into batches of the client's own."""

from collections import deque
from functools import partial

from aiokafka.producer.message_accumulator import BatchBuilder

from headrace.runtime.wire.produce import DeliveryReport, Message
from headrace.triggers.kafka.produce.packing import MessageBatch, Waiting, pack

BATCH_BYTES = 1000
PARTITIONS = range(4)


def create() -> BatchBuilder:
    return BatchBuilder(BATCH_BYTES, 0)


def nobody(_: DeliveryReport) -> None:
    """Asks what became of it."""


def waiting_of(*messages: Message) -> Waiting:
    return deque((message, nobody) for message in messages)


def packed(waiting: Waiting) -> list[MessageBatch]:
    return list(pack(waiting, create, (PARTITIONS, PARTITIONS)))


def values(batches: list[MessageBatch], partition: int) -> list[bytes | None]:
    return [message.value for it in batches if it.partition == partition for message, _ in it.messages]


def test_messages_of_a_partition_keep_their_order_over_batches() -> None:
    sent = [Message("t", b"%d" % n, partition=n % 2, headers=(("a", b"x" * 50),)) for n in range(100)]
    batches = packed(waiting_of(*sent))
    assert len(batches) > 2
    for partition in (0, 1):
        assert values(batches, partition) == [b"%d" % n for n in range(partition, 100, 2)]


def test_a_key_has_one_partition_and_it_is_the_one_of_other_clients() -> None:
    batches = packed(waiting_of(*(Message("t", b"", key=b"k%d" % (n % 20)) for n in range(60))))
    of_key = {(message.key, it.partition) for it in batches for message, _ in it.messages}
    assert len(of_key) == 20
    assert (b"k1", 1) in of_key  # by Java's


def test_what_has_no_key_shares_a_batch() -> None:
    (batch,) = packed(waiting_of(*(Message("t", b"%d" % n) for n in range(10))))
    assert len(batch.messages) == 10


def test_a_large_message_is_alone() -> None:
    large = Message("t", b"x" * 5 * BATCH_BYTES, partition=1)
    small = Message("t", b"x", partition=1)
    batches = packed(waiting_of(small, large, small, small))
    assert [len(it.messages) for it in batches] == [1, 1, 2]


def test_what_comes_while_others_are_sent_waits() -> None:
    waiting = waiting_of(Message("t", b"a", partition=1))
    for batch in pack(waiting, create, (PARTITIONS, PARTITIONS)):
        waiting.extend(batch.messages)
    assert len(waiting) == 1


def test_a_message_without_key_and_value_is_one_too() -> None:
    (batch,) = packed(waiting_of(Message("t", None)))
    assert batch.builder.record_count() == 1


def test_each_message_of_a_batch_is_told_its_own_offset() -> None:
    said: list[DeliveryReport] = []
    waiting: Waiting = deque((Message("t", b"", partition=3), said.append) for _ in range(3))
    (batch,) = pack(waiting, create, (PARTITIONS, PARTITIONS))
    batch.confirm(7)
    assert said == [DeliveryReport(3, 7), DeliveryReport(3, 8), DeliveryReport(3, 9)]


def test_no_offset_is_made_up_where_the_broker_says_none() -> None:
    said: list[tuple[str, DeliveryReport]] = []
    waiting: Waiting = deque(
        (Message("t", b"", partition=3), partial(_note, said, name)) for name in ("a", "b")
    )
    (batch,) = pack(waiting, create, (PARTITIONS, PARTITIONS))
    batch.confirm(-1)
    assert said == [("a", DeliveryReport(3, -1)), ("b", DeliveryReport(3, -1))]


def _note(said: list[tuple[str, DeliveryReport]], name: str, written: DeliveryReport) -> None:
    said.append((name, written))
