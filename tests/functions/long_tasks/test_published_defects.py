"""Each defect of the published consumer is caught by the checkers that the real runs have to satisfy."""

import pytest
from published_consumer import PublishedConsumer
from task_history import (
    Happened,
    Place,
    answered_twice,
    begun_beside_another,
    begun_twice,
    committed_unanswered,
    out_of_order,
    unanswered,
)


@pytest.fixture
def consumer() -> PublishedConsumer:
    """The published consumer, with two partitions of two requests."""
    found = PublishedConsumer([2, 2])
    found.assign(0)
    return found


def run_well(consumer: PublishedConsumer, place: Place) -> None:
    consumer.pause()
    consumer.end(place)
    consumer.acked(place)
    consumer.resume()


def test_a_commit_of_the_position_covers_what_was_fetched_before_the_pause(
    consumer: PublishedConsumer,
) -> None:
    first, second = consumer.poll(), consumer.poll()
    assert first
    run_well(consumer, first)
    assert committed_unanswered(consumer.history, consumer.requests()) == [second]


def test_two_requests_run_at_once_where_the_pause_comes_late(consumer: PublishedConsumer) -> None:
    _, second = consumer.poll(), consumer.poll()
    assert begun_beside_another(consumer.history) == [second]


def test_what_failed_is_committed_by_the_next_success_and_lost(consumer: PublishedConsumer) -> None:
    failed = consumer.poll()
    assert failed
    consumer.end(failed)  # no Response, no commit: the position stays behind it
    consumer.resume()
    following = consumer.poll()
    assert following
    run_well(consumer, following)
    assert committed_unanswered(consumer.history, consumer.requests()) == [failed]
    assert unanswered(consumer.history, [failed, following]) == [failed]


def test_a_partition_that_comes_while_a_task_runs_is_not_paused(consumer: PublishedConsumer) -> None:
    consumer.poll()
    consumer.pause()
    consumer.assign(1)
    gained = consumer.poll()
    assert gained == Place(1, 0)
    assert begun_beside_another(consumer.history) == [gained]


def test_a_response_that_is_confirmed_late_commits_the_task_that_runs_by_then(
    consumer: PublishedConsumer,
) -> None:
    first = consumer.poll()
    assert first
    consumer.pause()
    consumer.end(first)
    consumer.resume()  # its producer was polled for 1 s, and nothing came
    second = consumer.poll()
    consumer.acked(first)
    assert committed_unanswered(consumer.history, consumer.requests()) == [second]


def test_a_killed_childs_task_is_never_run_again(consumer: PublishedConsumer) -> None:
    place = consumer.poll()
    assert place
    consumer.killed()
    assert unanswered(consumer.history, [place]) == [place]


def test_a_livelock_begins_a_task_again_without_a_kill() -> None:
    evicted, heir = PublishedConsumer([1], worker=0), PublishedConsumer([1], worker=1)
    for one in (evicted, heir):  # the first has missed max.poll.interval.ms, and still runs
        one.assign(0)
        one.poll()
    both = [*evicted.history, *heir.history]
    assert begun_twice(both) == [Place(0, 0)]


def test_what_goes_well_is_not_complained_of(consumer: PublishedConsumer) -> None:
    for _ in range(2):
        place = consumer.poll()
        assert place
        run_well(consumer, place)
    requests = [Place(0, 0), Place(0, 1)]
    assert unanswered(consumer.history, requests) == []
    assert committed_unanswered(consumer.history, requests) == []
    for check in (answered_twice, begun_beside_another, begun_twice, out_of_order):
        assert check(consumer.history) == []


def test_a_kill_explains_one_more_start_of_what_its_worker_was_in_and_of_nothing_else() -> None:
    first, other = Place(0, 0), Place(1, 0)
    killed = [
        Happened("start", 1, first),
        Happened("start", 2, other),
        Happened("kill", 1),
        Happened("start", 1, first),
    ]
    assert begun_twice(killed) == []
    assert begun_twice([*killed, Happened("start", 3, other)]) == [other]
    assert begun_twice([*killed, Happened("start", 3, first)]) == [first]


def test_a_second_response_and_a_start_before_its_predecessors_end_are_found() -> None:
    first, second = Place(0, 0), Place(0, 1)
    assert answered_twice([Happened("answer", place=first)] * 2) == [first]
    assert out_of_order([Happened("start", 1, first), Happened("start", 2, second)]) == [second]
