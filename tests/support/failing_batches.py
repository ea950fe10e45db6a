"""Handlers of batches that fail or die of a record, and how often each was delivered."""

from batch_bench import BatchBench

from headrace.runtime.config.delivery_policy import FailurePolicy, Then

BAD = """
    def handler(context, events):
        see(events)
        for event in events:
            if event.shard_id == 0 and event.offset == {offset}:
                {failing}
"""


RAISES = BAD.format(offset=5, failing="raise ValueError('no')")


DIES = BAD.format(offset=5, failing="os._exit(3)")


def policy(then: Then = "skip", attempts: int = 4) -> FailurePolicy:
    return FailurePolicy(attempts, 0.01, 0.02, then, "dlq")


def deliveries(b: BatchBench, offset: int, number: int = 0) -> list[tuple[int, int]]:
    """Of one record: how many were delivered with it, and as which attempt."""
    return [
        (len(batch), attempt)
        for batch in b.seen
        for partition, o, attempt in batch
        if (partition, o) == (number, offset)
    ]
