"""What one simulation is made of, drawn from its seed: settings of a trigger, and how much goes wrong."""

import random
from dataclasses import dataclass, replace
from typing import Literal

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy, FailurePolicy, Then

Delivery = Literal["records", "chunks", "ranges"]
Ordering = Literal["partition", "key", "none"]
ORDERINGS: list[Ordering] = ["partition", "partition", "partition", "partition", "key", "key", "none"]
RANGE_EVENT = "headrace.runtime.worker.api.event:RangeEvent"
DECODER = "headrace.triggers.kafka.format.decoder:decode"


@dataclass(frozen=True, slots=True)
class Rates:
    """How likely it is, for each call of a handler, that it ...; each is 0 in many simulations."""

    fails: float
    dies: float
    is_slow: float
    refuses: float
    """A message that it makes is one that the broker refuses, for good."""
    nacks: float


@dataclass(frozen=True, slots=True)
class Shape:
    """All else that happens is drawn as it happens, from the same seed."""

    delivery: Delivery
    policy: DeliveryPolicy
    partitions: int
    replicas: int
    workers: int
    capacity: int
    in_flight: int
    """0: unset."""
    is_async: bool
    max_text_chars: int
    is_made_anew: bool
    """The topic, now and then."""
    goes_by_ids: bool
    """The group: what is made anew leaves, and is given again."""
    has_sessions: bool
    rates: Rates
    most_confirm_seconds: float
    """What a broker takes to say that it has a message, or wants none of it."""
    seconds: float
    """How long things go wrong, before all is left in peace."""
    pause_seconds: float
    """At most, between two that are done from outside: a rebalance mends what stands still."""


def draw(rng: random.Random) -> Shape:
    """Any combination that a function.yaml may ask for."""
    ordering = rng.choice(ORDERINGS)
    is_loose = ordering != "partition"
    deliveries: list[Delivery] = ["records", "records", "chunks", "ranges"]
    delivery = "records" if is_loose else rng.choice(deliveries)
    is_batch = delivery == "ranges" or (not is_loose and rng.random() < 0.5)
    mode = AckMode.DISABLE if is_loose else rng.choice(list(AckMode))
    is_cumulative = mode.is_explicit and rng.random() < 0.2
    is_async = rng.random() < 0.5
    is_static = not is_loose and (mode.is_explicit or rng.random() < 0.3)
    policy = DeliveryPolicy(
        ack_mode=mode,
        ordering=ordering,
        max_concurrency=rng.choice([1, 3, 8]) if is_async and not is_batch else 1,
        explicit_ack_semantics="cumulative" if is_cumulative else "individual",
        ack_window_size=rng.choice([0, 0, 0, 3]) if delivery != "ranges" and not is_loose else 0,
        ack_deadline_seconds=rng.choice([None, None, 0.3, 1.0]) if mode.is_explicit else None,
        late_ack_seconds=rng.choice([0.0, 0.1]) if mode.is_explicit else 0.0,
        worker_allocation_mode="static" if is_static else "pool",
        failure=_failure(rng),
        batch=BatchPolicy(rng.choice([2, 5, 16]), rng.choice([0.0, 0.05, 0.3])) if is_batch else None,
        decoder=DECODER if delivery == "chunks" else "",
        event=RANGE_EVENT if delivery == "ranges" else "",
        is_ranges=delivery == "ranges",
        event_timeout_seconds=rng.choice([None, 0.2]),
    )
    may_be_once = delivery != "ranges" and not (is_batch and mode.is_explicit) and not policy.ack_window_size
    policy = replace(policy, exactly_once=may_be_once and rng.random() < 0.4)
    is_made_anew = rng.random() < (0.4 if mode.is_explicit else 0.15)
    return Shape(
        delivery,
        policy,
        partitions=rng.randint(1, 4),
        replicas=rng.randint(1, 2),
        workers=rng.randint(1, 3),
        capacity=rng.choice([4, 16, 64]),
        is_async=is_async,
        max_text_chars=4096 if is_loose or is_made_anew else rng.choice([4096, 4096, 80]),
        is_made_anew=is_made_anew,
        goes_by_ids=is_made_anew and rng.random() < 0.5,
        has_sessions=is_batch and rng.random() < 0.4,
        rates=Rates(
            fails=rng.choice([0, 0.02, 0.1]),
            dies=rng.choice([0, 0.01, 0.05]),
            is_slow=rng.choice([0, 0.01, 0.05]),
            refuses=rng.choice([0, 0, 0.03, 0.15]),
            nacks=rng.choice([0, 0.03, 0.15]) if mode.is_explicit else 0,
        ),
        most_confirm_seconds=rng.choice([0.05, 0.2, 1.0]),
        seconds=rng.uniform(2, 8),
        pause_seconds=rng.choice([0.5, 2.0, 100.0]),
        in_flight=rng.choice([0, 0, 3, 20]),
    )


def _failure(rng: random.Random) -> FailurePolicy:
    thens: list[Then] = ["halt", "skip", "deadLetter"]
    return FailurePolicy(
        max_attempts=rng.choice([0, 1, 2, 3, 4]),
        backoff_seconds=rng.choice([0.0, 0.02, 0.2]),
        max_backoff_seconds=0.3,
        then=rng.choice(thens),
        dead_letter_topic="dead",
    )


def record_key(offset: int) -> bytes | None:
    """Few, and sometimes none."""
    return b"%d" % (offset * 31 % 6) if offset % 11 else None
