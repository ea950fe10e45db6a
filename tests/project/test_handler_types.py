"""`from headrace import Context, Event ...`: what editors and type checkers know of what a handler gets."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nuclio_sdk
import pytest

import headrace
from headrace import Context, Event, QualifiedOffset, Response
from headrace.runtime.worker.api import sdk
from headrace.testing import TrialResult, run_handler

ROOT = Path(__file__).parents[2]
TYPED = """
from headrace import Context, Event, QualifiedOffset, Response
from headrace.functions.events import spans_of
from headrace.functions.spark import events_to_dataframe, ranges_to_dataframe

async def handler(context: Context, event: Event) -> Response:
    context.logger.info_with("a record", topic=event.topic, attempt=event.attempt + 1)
    names = [name.upper() for name, _ in event.header_list]
    if event.body is not None and event.timestamp is not None and event.timestamp_type == 0:
        names.append(event.body.decode() + event.timestamp.isoformat() + event.trigger.name)
    event.topic = "another"
    acked: bool = await context.platform.explicit_ack(QualifiedOffset.from_event(event))
    await context.platform.explicit_ack_through(QualifiedOffset("t", event.shard_id, event.offset))
    return context.Response(body={"acked": acked, "names": names}, event_id=event.id)

def init_context(context: Context) -> None:
    context.user_data.client = int(context.worker_id)
    context.platform.on_signal(lambda: None)
    context.platform.set_drain_callback(lambda: context.trigger.kind)
    context.spark.sql("SELECT 1").collect()
    context.platform.call_function("audit", object(), timeout=1.5).headers.get("x")

def on_batch(context: Context, events: list[Event]) -> None:
    events_to_dataframe(context.spark, events).createOrReplaceTempView("events")
    ranges_to_dataframe(context, events, minPartitions="8").count()
    spans_of(events)
"""
MISTAKES = [
    "event.offfset",
    "event.offset.upper()",
    "event.body.decode()",  # a tombstone has none
    "event.header_list.get('a')",
    "context.platfrom",
    "context.loger",
    "context.logger.inof('x')",
    "context.platform.explicit_acks",
    "context.platform.explicit_ack(event)",
    "context.platform.set_drain_callback(1)",
    "context.platform.call_function('audit')",
    "context.platform.call_function('audit', event).status",
    "context.platform.call_function_async('audit', event).body",  # awaited first
    "Response(status='500')",
    "QualifiedOffset('t', '0', 0)",
    "Nothing",
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of both, where headrace is a package of somebody else's: lines by file."""
    folder = tmp_path_factory.mktemp("types")
    mistakes = [
        f"def f{n}(context: Context, event: Event) -> object: return {m}" for n, m in enumerate(MISTAKES)
    ]
    imports = "from headrace import Context, Event, QualifiedOffset, Response, Nothing"
    (folder / "typed.py").write_text(TYPED)
    (folder / "mistakes.py").write_text("\n".join([*mistakes, imports]))
    cache = str(ROOT / ".mypy_cache/user")
    flags = [
        "--config-file=",
        "--strict",
        "--follow-imports=silent",
        "--no-error-summary",
        "--cache-dir",
        cache,
    ]
    command = [sys.executable, "-m", "mypy", *flags, "typed.py", "mistakes.py"]
    checked = subprocess.run(
        command, cwd=folder, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert checked.stderr == ""
    said = checked.stdout.splitlines()
    return {name: [line for line in said if line.startswith(name)] for name in ("typed.py", "mistakes.py")}


def test_an_annotated_handler_is_accepted(found: dict[str, list[str]]) -> None:
    assert found["typed.py"] == []


def test_each_mistake_in_a_handler_is_found(found: dict[str, list[str]]) -> None:
    places = {int(line.split(":")[1]) for line in found["mistakes.py"] if " error: " in line}
    count = len(MISTAKES)
    assert places == {*range(1, count), count + 1}, found  # Nothing: where it is imported


def one_run() -> tuple[TrialResult, Any]:
    seen = []
    run = run_handler(lambda _, event: seen.append(event), [b"body"])
    return run, seen[0]


def test_they_are_the_classes_that_a_handler_gets() -> None:
    run, event = one_run()
    assert run.failures == []
    assert isinstance(event, Event)
    assert isinstance(run.context, Context)
    assert run.context.Response is Response
    assert (Response, QualifiedOffset) == (nuclio_sdk.Response, nuclio_sdk.QualifiedOffset)
    assert issubclass(Event, nuclio_sdk.Event)
    assert issubclass(Context, nuclio_sdk.Context)


def names_typed_in(path: Path, name: str) -> list[str]:
    """What the class declares there, private names aside."""
    classes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef))
    body = next(node.body for node in classes if node.name == name)
    found = [node.target.id for node in body if isinstance(node, ast.AnnAssign)]  # type: ignore[union-attr]
    found += [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [name for name in found if not name.startswith("_")]


def test_what_has_a_type_is_there() -> None:
    run, event = one_run()
    context = run.context
    worker = ROOT / "runtime/worker"
    for path, name, real in (
        (worker / "api/sdk.py", "TriggerInfo", context.trigger),
        (worker / "api/sdk.py", "Event", event),
        (worker / "api/sdk.py", "QualifiedOffset", QualifiedOffset("t", 0, 0)),
        (worker / "api/sdk.py", "Response", Response()),
        (worker / "api/sdk.py", "Logger", context.logger),
        (worker / "api/sdk.py", "Platform", context.platform),
        (worker / "api/event.py", "StreamEvent", event),
        (worker / "api/context.py", "Context", context),
    ):
        names = [it for it in names_typed_in(path, name) if it != "spark"]  # asks for a server
        assert names
        assert [it for it in names if not hasattr(real, it)] == [], name


def test_methods_take_what_their_types_say() -> None:
    tree = ast.parse((ROOT / "runtime/worker/api/sdk.py").read_text())
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for method in (node for node in cls.body if isinstance(node, ast.FunctionDef)):
            given = method.args
            said = [it.arg for it in (*given.args, given.vararg, given.kwarg) if it is not None]
            real = [*inspect.signature(getattr(getattr(sdk, cls.name), method.name)).parameters]
            assert real[: len(said)] == said, f"{cls.name}.{method.name}"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import headrace", {"headrace.runtime", "nuclio_sdk"}),
        (
            "from headrace import Context, Event",
            {"aiohttp", "aiokafka", "click", "pydantic", "pyspark", "yaml"},
        ),
    ],
)
def test_importing_them_is_cheap(code: str, unwanted: set[str]) -> None:
    code = f"import json, sys; {code}; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unwanted & set(json.loads(shown.stdout))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert set(headrace.__all__) <= set(dir(headrace))
    with pytest.raises(AttributeError, match="module 'headrace' has no attribute 'Nothing'"):
        _ = headrace.Nothing  # type: ignore[attr-defined]
