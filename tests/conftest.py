"""Fixtures that every test may ask for."""

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest
import replica
from _pytest.unraisableexception import collect_unraisable
from acls import Rules
from broker import Broker, embedded
from effort import examples
from hypothesis import given, settings, strategies
from neighbour import interpreter, workers_python
from servers import ADDRESS, GuardedBroker, SharedV3io, running, shared
from spark import SharedSpark

from headrace.runtime.embedded.kafka import broker as embedded_kafka
from headrace.runtime.embedded.kafka.properties import broker_settings
from headrace.runtime.workers import watchdog

pytest_plugins = ("sets", "skipped")

# How long an example takes says nothing on a busy machine. The same examples each time: who changes nothing
# sees nothing new. `make storm` and `make fuzz` look where nobody has looked before.
settings.register_profile("headrace", max_examples=examples(100), deadline=None, derandomize=True)
settings.load_profile("headrace")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """An unclosed client fails the test that made it, not the one in which cycles happen to be collected."""
    done = yield
    if isinstance(item, pytest.Function):
        item.funcargs.clear()  # as pytest does, but later
    gc.collect()
    gc.freeze()  # what is left stays: the next time only what came since then is looked at
    collect_unraisable(item.config)
    return done


def pytest_configure(config: pytest.Config) -> None:
    """The servers of the run belong to whoever starts it: xdist's other processes find them."""
    if ADDRESS not in os.environ:
        servers = ExitStack()
        servers.enter_context(running())
        config.add_cleanup(servers.close)


@pytest.fixture(scope="session", autouse=True)
def hypothesis_begins() -> None:
    """Hypothesis makes its random numbers now: it looks for who refers to them, and sees nothing frozen."""
    settings(max_examples=1)(given(strategies.none())(lambda _: None))()


@pytest.fixture(scope="session")
def broker() -> Broker:
    """One broker for the whole run."""
    found: Broker = shared("broker")
    return found


@pytest.fixture(scope="session")
def guarded() -> GuardedBroker:
    """One for the whole run that asks for a sign-in, TLS or certificates."""
    found: GuardedBroker = shared("guarded")
    return found


@pytest.fixture
def rules(guarded: GuardedBroker) -> Rules:
    """For two topics of one partition, of the test's own."""
    found = Rules(guarded)
    for name in (found.topic, found.dead):
        found.plain.create(name, 1)
    return found


@pytest.fixture(scope="session")
def v3io() -> SharedV3io:
    """One web API for the whole run."""
    found: SharedV3io = shared("v3io")
    return found


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of this test's own, with 8 partitions."""
    return broker.create_topic(8)


@pytest.fixture
def narrow_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker of this test's own, whose groups have one member at most."""
    narrow = {"group.max.size": "1"}
    monkeypatch.setattr(embedded_kafka, "broker_settings", lambda *given: broker_settings(*given) | narrow)
    with embedded() as kafka:
        yield Broker(kafka.bootstrap, "embedded")


@pytest.fixture(params=["undecoded", pytest.param("decoded", marks=pytest.mark.full)])
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs twice: with batches that workers decode, and with records that the processor decodes."""
    if request.param == "decoded":
        for name, value in replica.DECODED.items():
            monkeypatch.setitem(replica.DEFAULTS, name, value)


@pytest.fixture(scope="session")
def neighbour() -> None:
    """There can be processes of another user."""
    if interpreter() is None:
        pytest.skip("only root can start processes of another user, who needs a Python")


@pytest.fixture(scope="session")
def worker_user() -> None:
    """And workers of one."""
    if workers_python() is None:
        pytest.skip("only root can run workers as another user, who needs a Python with Headrace")


@pytest.fixture
def patient_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that was cancelled by time is never killed for ending late."""
    monkeypatch.setattr(watchdog, "_CANCEL_SECONDS", 600.0)


@pytest.fixture(scope="session")
def spark() -> SharedSpark:
    """One Spark for the whole run."""
    found: SharedSpark = shared("spark")
    return found
