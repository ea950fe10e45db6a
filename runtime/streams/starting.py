"""Beginning a partition: with as much of its checkpoint as can be trusted and repeated."""

import logging
from dataclasses import replace

from headrace.runtime.config.delivery_policy import MAX_EVENTS, BatchPolicy, DeliveryPolicy
from headrace.runtime.partitions.flow_control import FlowLimit
from headrace.runtime.partitions.key import PartitionKey, PartitionLog
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint, PlannedBatches
from headrace.runtime.partitions.partition import AssignedPartition, of_keys, of_ranges, of_records
from headrace.runtime.partitions.record_buffer import RecordBuffer
from headrace.runtime.streams.stream import StartOffsets

logger = logging.getLogger(__name__)


def trusted(key: PartitionKey, starts: StartOffsets) -> Checkpoint:
    """Return the partition's checkpoint, but nothing that it says of offsets beyond the log's end.

    Anybody who may commit for the group may have written it.
    """
    told, end = starts.checkpoints[key], starts.ends.get(key)
    start = told if end is None else told.within(end)
    if start != told:
        line = "%s: the log ends at offset %d; what the group's commit says of later ones is dropped"
        logger.warning(line, key, end)
    return start


def new_partition(
    key: PartitionKey, start: Checkpoint, log: PartitionLog, policy: DeliveryPolicy, chunks: FlowLimit | None
) -> AssignedPartition:
    """Make the partition that goes on from `start`. `chunks`: its limit, if it is fetched undecoded."""
    if policy.is_ranges:
        return of_ranges(key, start, log)
    if (plan := start.plan) is not None and (policy.batch is None or plan.count > MAX_EVENTS):
        # A plan of before the function was changed, or too long to be held, isn't repeated: only the Spark
        # session that it names has to be ended.
        start = replace(start, plan=_repeatable(plan, start.offset, policy.batch))
    window_size = policy.ack_window_size
    if chunks is not None:
        return AssignedPartition(key, start, chunks, RecordBuffer(), ack_window_size=window_size, log=log)
    # Room for one record, until the first one says how large they are.
    if policy.ordering != "partition":
        return of_keys(key, start, 1, policy.ordering, log)
    return of_records(key, start, 1, window_size, log)


def _repeatable(plan: PlannedBatches, offset: int, batch: BatchPolicy | None) -> PlannedBatches:
    """Return the batches that may come again as they were; if there are none, an empty one at `offset`."""
    short = [it for it in plan.batches if batch is not None and it[1] - it[0] <= MAX_EVENTS]
    return PlannedBatches.of(tuple(short), plan.session) or PlannedBatches(offset, offset, plan.session)
