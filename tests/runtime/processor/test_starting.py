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
    ("spark", "steps"), [(None, ["", ""]), ({}, ["", "Spark"]), ({"remote": "sc://s:1"}, ["", ""])]
)
async def test_spark_is_named_where_it_is_started_only(
    spark: dict[str, Any] | None, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(document: dict[str, Any]) -> None:
        document["spec"] |= {} if spark is None else {"spark": spark}

    function = load_changed(tmp_path, change)
    status, said = StartingStatus([function.name]), []

    @asynccontextmanager
    async def running_services(*_: object) -> Any:
        said.append(status.step)
        yield {"kafka": (), "v3io": ()}

    @asynccontextmanager
    async def server(*_: object) -> Any:
        said.append(status.step)
        yield

    def done(*_: object) -> None:
        if len(said) == 1:
            said.append(status.step)
        raise DoneError

    monkeypatch.setattr(run, "running_services", running_services)
    monkeypatch.setattr(run, "_spark_server", server)
    monkeypatch.setattr(run, "written_out", done)
    startup = run._Startup([function], RunOptions(paths=()), Stopping(), status, lambda: None)
    async with AsyncExitStack() as stack:
        with pytest.raises(DoneError):
            await startup.begin(stack)
    assert said == steps
