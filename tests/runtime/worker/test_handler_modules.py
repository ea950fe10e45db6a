"""What a trigger brings into its workers: found by name, or one line that says what is wrong with it."""

from pathlib import Path

import pytest
from worker_bench import bench, records

from headrace.runtime.errors import HandlerLoadError
from headrace.runtime.worker.api.event import RangeEvent, StreamEvent
from headrace.runtime.worker.handler import load_named

HANDLER = "def handler(context, event):\n    write(f'{type(event).__name__} {event.offset} {event.greeting}')"
EVENTS = """
from headrace.runtime.worker.api.event import StreamEvent

class Greeting(StreamEvent):
    greeting = "hello"
"""


async def test_a_handler_gets_the_event_that_its_trigger_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "greetings.py").write_text(EVENTS)
    async with bench(tmp_path, HANDLER, event="greetings:Greeting") as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == [f"Greeting {n} hello" for n in range(3)]


@pytest.mark.parametrize(
    ("what", "name", "why"),
    [
        ("event", "nowhere:Greeting", "ModuleNotFoundError: No module named 'nowhere'"),
        ("event", "greetings:Nothing", "has no attribute 'Nothing'"),
        ("event", "greetings", "has no attribute ''"),
        ("event", "", "Empty module name"),
        ("event", "broken:Greeting", "ZeroDivisionError: division by zero"),
        ("decoder", "nowhere:decode", "ModuleNotFoundError: No module named 'nowhere'"),
    ],
)
async def test_a_wrong_name_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, name: str, why: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "greetings.py").write_text(EVENTS)
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(HandlerLoadError) as raised:
        async with bench(tmp_path, HANDLER, **{what: name}):  # type: ignore[arg-type]  # one of two names
            pass
    said = str(raised.value)
    assert f"the trigger's {what}, {name!r}, can't be loaded" in said
    assert why in said
    assert "\n" not in said


@pytest.mark.parametrize("event", [StreamEvent, RangeEvent])
def test_both_events_of_streams_are_found_by_name(event: type) -> None:
    assert load_named("event", f"{event.__module__}:{event.__name__}") is event
