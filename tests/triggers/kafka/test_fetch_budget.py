"""What may be asked for of brokers, by what is held: pure."""

import gc
import random
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.triggers.kafka.client.fetch_budget import FetchBudget, HeldBytes

MAX_BYTES = 1 << 20
BATCHES = st.integers(1, 40_000)


class Cluster:
    """Brokers with endless logs, and partitions that keep what they are given until it is let go."""

    def __init__(self, partitions: int, nodes: int, batch_bytes: int, busy: set[int]) -> None:
        self.nodes, self.batch_bytes, self.busy = nodes, batch_bytes, busy
        self.standing: set[object] = set()
        self.kept: dict[int, list[tuple[HeldBytes, int]]] = {number: [] for number in range(partitions)}
        self.budget = FetchBudget(MAX_BYTES, 1 << 20, self.kept, self.standing.__contains__)
        self.answered: Counter[int] = Counter()
        self.random = random.Random(0)

    @property
    def held_bytes(self) -> int:
        return sum(size for answers in self.kept.values() for _, size in answers)

    def turn(self, node: int) -> bool:
        """One broker is asked, and answers as brokers do; whether it was asked."""
        self.budget.close_others(set())
        terms = self.budget.terms(node, 1)
        mine = [n for n in self.kept if n % self.nodes == node]
        self.random.shuffle(mine)  # as the client does
        mine.sort(key=self.budget.held_of)
        rows = [n for n in mine if terms is not None and terms.has_room(self.budget.held_of(n))]
        if terms is None or not rows:
            return False
        left = self.budget.open(node, terms, len(rows))
        assert self.budget.used_bytes - left <= MAX_BYTES + self.slack_bytes
        is_empty = True
        for number in filter(self.busy.__contains__, rows):
            fits = min(left, terms.limit_bytes) // self.batch_bytes
            if is_empty and not fits:
                fits = 1  # the first batch of an answer comes whole
            if fits:
                is_empty = False
                size = fits * self.batch_bytes
                self.kept[number].append((self.budget.hold(number, size), size))
                self.answered[number] += 1
                left -= size
        self.budget.close_others(set())
        return True

    @property
    def slack_bytes(self) -> int:
        return self.nodes * self.batch_bytes


@given(
    st.integers(1, 60),
    st.integers(1, 3),
    BATCHES,
    st.lists(st.tuples(st.integers(0, 59), st.booleans()), min_size=1, max_size=120),
)
@example(60, 1, 40_000, [(number, False) for number in range(60)])
@example(47, 2, 21_878, [(number, False) for number in (1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0)])
def test_what_is_held_stays_below_the_bound_but_for_a_batch_of_each_broker(
    partitions: int, nodes: int, batch_bytes: int, steps: list[tuple[int, bool]]
) -> None:
    cluster = Cluster(partitions, nodes, batch_bytes, set(range(partitions)))
    for number, is_let_go in steps:
        if is_let_go and cluster.kept[number % partitions]:
            cluster.kept[number % partitions].pop(0)
        cluster.turn(number % nodes)
        assert cluster.held_bytes <= MAX_BYTES + cluster.slack_bytes


@settings(max_examples=20)
@given(st.integers(2, 30), st.integers(1, 3), BATCHES, st.integers(0, 59))
def test_partitions_that_stand_do_not_keep_one_from_being_fetched(
    partitions: int, nodes: int, batch_bytes: int, late: int
) -> None:
    late %= partitions
    cluster = Cluster(partitions, nodes, batch_bytes, set(range(partitions)) - {late})
    cluster.standing |= cluster.busy
    for step in range(40 * nodes):
        cluster.turn(step % nodes)
    cluster.busy = {late}
    for step in range(20 * nodes):
        cluster.turn(step % nodes)
        cluster.kept[late].clear()
    assert cluster.answered[late] >= 10


@settings(max_examples=20)
@given(st.integers(1, 30), st.integers(1, 3), BATCHES)
def test_partitions_that_are_all_busy_get_their_turns(partitions: int, nodes: int, batch_bytes: int) -> None:
    cluster = Cluster(partitions, nodes, batch_bytes, set(range(partitions)))
    for step in range(10 * partitions * nodes):
        cluster.turn(step % nodes)
        if step % 5 == 0:  # by then workers have handled it all
            for answers in cluster.kept.values():
                answers.clear()
    assert min(cluster.answered[number] for number in range(partitions)) > 0


def test_one_busy_partition_of_a_thousand_gets_as_much_as_one_of_a_few() -> None:
    cluster = Cluster(1000, 1, 1000, {7})
    for _ in range(10):
        cluster.turn(0)
    assert cluster.held_bytes > 100 * cluster.budget.floor_bytes


def test_a_setting_of_one_byte_still_lets_batches_through_one_by_one() -> None:
    budget = FetchBudget(1, 1 << 20, range(3))
    terms = budget.terms("node", 1)
    assert terms is not None
    budget.open("node", terms, 3)
    held = budget.hold("t/0", 5000)
    budget.close_others(())
    assert budget.terms("node", 1) is None
    del held
    assert budget.terms("node", 1) is not None


def test_who_waits_is_told_once_when_an_answer_is_let_go() -> None:
    budget, told = FetchBudget(1 << 20, 1 << 20), []
    first, second = budget.hold("t/0", 10), budget.hold("t/0", 20)
    budget.on_let_go = lambda: told.append(budget.used_bytes)
    del first
    del second
    gc.collect()
    assert told == [20]
    assert not budget.used_bytes
