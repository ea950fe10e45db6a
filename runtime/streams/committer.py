"""The one place that commits offsets."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from headrace.runtime.partitions.key import PartitionKey, describe_partitions
from headrace.runtime.partitions.offsets.checkpoint import Checkpoint
from headrace.runtime.partitions.offsets.checkpoint_text import Encoded, decode_text
from headrace.runtime.partitions.partition import AssignedPartition
from headrace.runtime.streams.offset_store import CommitRefusedError, OffsetStore, TextTooLongError
from headrace.runtime.wire.produce import Outgoing

logger = logging.getLogger(__name__)

_CHARS_PER_PARTITION = 200  # a topic's name, numbers
# How long a request that got no answer may still come, behind later ones: TCP sends again with pauses that
# double. A connection that is silent for longer has mostly ended, and its requests with it.
_LATE_SECONDS = 60.0
_REPEAT_SECONDS = 1.0


class Committer:
    """Commits explicit offsets, one commit at a time, under the generation that gave the partitions.

    The gate is closed from the end of a revoke to the next assignment: a commit that is sent while the group
    rebalances waits for the whole round, then fails and costs the member its identity.
    """

    def __init__(self, store: OffsetStore, metrics: TriggerMetrics) -> None:
        self._store = store
        self.metrics = metrics
        self._done_at: float | None = None
        self._max_chars = store.max_text_chars
        self._taken_chars = 0  # the longest text that the store has taken
        self._reported_max_chars: int | None = None
        self._probe_chars: int | None = None  # how long a text to try; 0 once the store has taken one
        self._committed: dict[PartitionKey, Checkpoint] = {}
        # Partitions of which it isn't known what the store holds: their next commit is sent in any case.
        self._stale: set[PartitionKey] = set()
        self._reported_behind: set[PartitionKey] = set()
        self._refused: set[PartitionKey] = set()  # partitions refused by the last commit, and reported
        self._generation: int | None = None
        self._lock = asyncio.Lock()
        self._begun = 0  # how many commits have begun
        self._safe: dict[PartitionKey, int] = {}  # number of the last commit that has covered a partition
        self._said_at: dict[PartitionKey, float] = {}  # when the store has last taken a partition's commit

    def open(
        self, keys: Iterable[PartitionKey], committed: Mapping[PartitionKey, Checkpoint], generation: int
    ) -> None:
        """Let commits of `keys` through, which `generation` has given; the store has `committed` of them."""
        for key in keys:
            self._committed.pop(key, None)
            self._stale.discard(key)
            self._refused.discard(key)
            self._safe.pop(key, None)
            self._said_at.pop(key, None)
        self._committed |= committed
        self._generation = generation if generation >= 0 else None

    def close(self) -> None:
        """Refuse commits until `open`. The caller's last commit has waited for those under way."""
        self._generation = None

    async def mark_stale(self, key: PartitionKey) -> None:
        """Have a partition's next commit sent, also below the last one: its log was cut or replaced."""
        async with self._lock:  # or a commit under way would note its state after this
            self._committed.pop(key, None)
            self._safe.pop(key, None)
            self._stale.add(key)

    def committed(self, key: PartitionKey) -> int | None:
        """Return the offset of the last successful commit of a partition; None before one."""
        last = self._committed.get(key)
        return last.offset if last is not None else None

    @property
    def seconds_since_last(self) -> float | None:
        """Seconds since a commit has succeeded; None before one has."""
        return None if self._done_at is None else time.monotonic() - self._done_at

    @property
    def max_chars(self) -> int:
        """Characters of text that the store takes beside an offset, as far as it has said so."""
        return self._max_chars

    def probe(self, chars: int) -> None:
        """Have the next commit find out whether the store takes so much text, if no commit has yet.

        Otherwise that would come out only when so much has to be told, and records that don't fit are handled
        again after a kill.
        """
        if self._probe_chars is None:
            self._probe_chars = chars

    async def commit(self, partitions: Iterable[AssignedPartition], timeout_seconds: float) -> bool:
        """Commit what has changed, if the store takes it within `timeout_seconds`.

        Returns whether the store holds all offsets, and attempts, plan and acked spans as far as they fit.
        If it refuses one partition, the others are safe all the same.
        A commit that fails loses nothing: records that it covered are delivered again if this replica goes.
        """
        partitions, asked = list(partitions), self._begun
        try:
            async with asyncio.timeout(timeout_seconds), self._lock:
                partitions = [it for it in partitions if not it.is_replaced]
                # While this call waited for the lock, a commit may have begun that covers its partitions.
                if self._is_open and all(self._safe.get(it.key, 0) > asked for it in partitions):
                    return True
                self._begun += 1
                is_done = await self._commit(partitions)
                if is_done:
                    self._safe |= dict.fromkeys((it.key for it in partitions), self._begun)
                return is_done
        except TimeoutError:
            self._failed(f"no answer within {timeout_seconds:g} s")
            return False

    async def _commit(self, partitions: Collection[AssignedPartition]) -> bool:
        if not self._is_open:
            return False
        by_key = {partition.key: partition for partition in partitions}
        now = {key: partition.checkpoint for key, partition in by_key.items()}
        behind = {key for key in now if self._is_behind(key, now[key])}
        waiting = {
            key: checkpoint
            for key, checkpoint in now.items()
            if key not in behind
            and (key in self._stale or checkpoint != self._committed.get(key) or self._may_be_moved_back(key))
        }
        while waiting := {key: it for key, it in waiting.items() if not by_key[key].is_replaced}:
            request = self._next_request(waiting)
            outgoing = _outgoing(by_key, waiting, request)
            # Asked before each request: a membership may be lost between two.
            if not self._is_open or not await self._send(waiting, request, outgoing):
                return False
            done = request.keys() - self._stale | self._refused
            # Read anew: a record may be open again, as a message of it was refused meanwhile.
            waiting = {key: by_key[key].checkpoint for key in waiting if key not in done}
        return not behind and self._refused.isdisjoint(now)

    @property
    def _is_open(self) -> bool:
        return self._generation is not None and self._generation == self._store.generation

    def _may_be_moved_back(self, key: PartitionKey) -> bool:
        """Whether an older commit may have come after the last one, so that this is said again."""
        # No generation or epoch keeps it out while the partition is held: Kafka 4.3 takes one of an earlier
        # epoch, too.
        now = time.monotonic()
        if now > self._store.unanswered_at + _LATE_SECONDS:
            return False
        return now >= self._said_at.get(key, -inf) + _REPEAT_SECONDS

    def _is_behind(self, key: PartitionKey, checkpoint: Checkpoint) -> bool:
        last = self._committed.get(key)
        if last is None or last.offset <= checkpoint.offset:
            return False
        if key not in self._reported_behind:
            self._reported_behind.add(key)
            message = "%s: the commit stays at offset %d: %d would be a step back; this is a bug of Headrace"
            logger.error(message, key, last.offset, checkpoint.offset)
        return True

    def _next_request(self, waiting: Mapping[PartitionKey, Checkpoint]) -> dict[PartitionKey, Encoded]:
        """Return the texts of as many partitions as go into one request, at least one."""
        request: dict[PartitionKey, Encoded] = {}
        room = self._store.max_request_chars
        for key, checkpoint in waiting.items():
            encoded = self._store.encode(key, checkpoint, self._max_chars)
            room -= len(encoded.text) + _CHARS_PER_PARTITION
            if request and room < 0:
                break
            request[key] = encoded
        return request

    async def _send(
        self,
        checkpoints: Mapping[PartitionKey, Checkpoint],
        request: Mapping[PartitionKey, Encoded],
        outgoing: Mapping[PartitionKey, Sequence[Outgoing]],
    ) -> bool:
        """Write a request; return whether the store has it, or it is to be sent again with less text.

        In the second case the partitions of the request stay stale.
        """
        self._stale |= request.keys()  # until an answer has come
        try:
            offsets = {key: (checkpoints[key].offset, it.text) for key, it in request.items()}
            if self._probe_chars:  # blanks behind the text of one partition
                key, (offset, text) = next(iter(offsets.items()))
                offsets[key] = offset, text.ljust(self._probe_chars)
            began = time.monotonic()
            refused = await self._store.write(offsets, outgoing)
            self.metrics.commit_seconds.observe(time.monotonic() - began)
        except TextTooLongError as error:
            longest = max(len(text) for _, text in offsets.values())
            if longest:
                least = self._taken_chars if self._taken_chars < longest else 0
                self._max_chars = max(least, _less_than(longest, self._max_chars))
                self._probe_chars = self._probe_chars and min(self._probe_chars, self._max_chars)
                return True
            self._failed(str(error))
            return False
        except CommitRefusedError as error:
            self._failed(str(error))
            return False
        self._probe_chars = 0
        safe = request.keys() - refused.keys()
        self._committed |= {key: checkpoints[key] for key in safe}
        self._said_at |= dict.fromkeys(safe, time.monotonic())
        self._taken_chars = max([self._taken_chars, *(len(offsets[key][1]) for key in safe)])
        self._stale -= safe
        self._report_left_out(request.values())
        self._report_refused(refused)
        self._refused = self._refused - safe | refused.keys()
        self.metrics.commits_done.inc()
        self._done_at = time.monotonic()
        return True

    def _report_refused(self, refused: Mapping[PartitionKey, str]) -> None:
        """Log partitions that the store refuses, each once until it is taken again."""
        if new := sorted(refused.keys() - self._refused):
            partitions, why = describe_partitions(new), ", ".join(sorted({refused[key] for key in new}))
            self._failed(f"{partitions}: {why}; those of the other partitions are safe")

    def _report_left_out(self, request: Iterable[Encoded]) -> None:
        """Log, once for each limit, that texts don't fit."""
        if self._reported_max_chars == self._max_chars or all(it.is_whole for it in request):
            return
        self._reported_max_chars = self._max_chars
        logger.warning(
            "a commit holds at most %d characters of metadata, too few for all that is known above it: "
            "of what is left out, acked records are delivered again after a rebalance or a restart, attempts "
            "are counted anew, and a batch may get other boundaries; raise the broker's "
            "offset.metadata.max.bytes (default 4096, up to %d are used)",
            self._max_chars,
            self._store.max_text_chars,
        )

    def _failed(self, why: str) -> None:
        self.metrics.commits_failed.inc()
        logger.warning("a commit failed (%s): what it covered is delivered again if this replica goes", why)


def _outgoing(
    partitions: Mapping[PartitionKey, AssignedPartition],
    checkpoints: Mapping[PartitionKey, Checkpoint],
    request: Mapping[PartitionKey, Encoded],
) -> dict[PartitionKey, Sequence[Outgoing]]:
    """Return the messages that go with each partition's commit: those of records that its text covers.

    An acked record above the offset may have found no place in the text: its messages wait.
    """
    found = {}
    for key, encoded in request.items():
        if (held := partitions[key].pending).outgoing_bytes:
            offset = checkpoints[key].offset
            text = decode_text(offset, encoded.text)
            found[key] = held.outgoing([(0, offset), *(text.checkpoint.acked if text else ())])
    return {key: messages for key, messages in found.items() if messages}


def _less_than(refused_chars: int, limit: int) -> int:
    """Halve the limit until it is below the refused length. From 32767 it gets to 4095: brokers take that."""
    while limit >= refused_chars:
        limit //= 2
    return limit
