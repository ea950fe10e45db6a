"""What `/ready` names while a run starts: what is started, and nothing else."""

from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from function_files import load_changed

from headrace.runtime.admin.status_source import StartingStatus
from headrace.runtime.processor import run
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.stopping import Stopping


class DoneError(Exception):
    """As far as it is to come."""


@pytest.mark.parametrize(
    ("spark", "doing"), [(None, ["", ""]), ({}, ["", "Spark"]), ({"remote": "sc://s:1"}, ["", ""])]
)
async def test_spark_is_named_where_it_is_started_only(
    spark: dict[str, Any] | None, doing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"] |= {} if spark is None else {"spark": spark}

    function = load_changed(tmp_path, change)
    front, said = StartingStatus([function]), []

    @asynccontextmanager
    async def started(*_: object) -> Any:
        said.append(front.doing)
        yield {"kafka": (), "v3io": ()}

    @asynccontextmanager
    async def server(*_: object) -> Any:
        said.append(front.doing)
        yield

    def done(*_: object) -> None:
        if len(said) == 1:
            said.append(front.doing)
        raise DoneError

    monkeypatch.setattr(run, "started", started)
    monkeypatch.setattr(run, "_spark_server", server)
    monkeypatch.setattr(run, "written_out", done)
    start = run._Start([function], RunOptions(paths=()), Stopping(), front, lambda: None)
    async with AsyncExitStack() as stack:
        with pytest.raises(DoneError):
            await run._begin(start, stack)
    assert said == doing
