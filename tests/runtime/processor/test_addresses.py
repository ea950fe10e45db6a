"""Where the functions of a run are called, by what their files say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.processor.services import with_addresses
from headrace.runtime.web.addresses import host_in_url

KAFKA = {"kind": "kafka-cluster", "attributes": {"topics": ["t"], "brokers": ["b:9"], "consumerGroup": "g"}}


def loaded(folder: Path, name: str, **triggers: Any) -> FunctionSpec:
    path = folder / name
    path.mkdir()
    (path / "main.py").write_text("def handler(context, event): pass\n")
    spec = {"handler": "main:handler", "triggers": triggers}
    (path / "function.yaml").write_text(yaml.safe_dump({"metadata": {"name": name}, "spec": spec}))
    return load_function(path)


def http(**attributes: Any) -> dict[str, Any]:
    return {"kind": "http", "attributes": attributes}


def addresses(*functions: FunctionSpec) -> dict[str, str]:
    found = with_addresses(functions)
    assert len({id(function.function_addresses) for function in found}) == 1
    return dict(found[0].function_addresses)


def test_functions_with_an_http_trigger_are_called_where_it_listens(tmp_path: Path) -> None:
    found = addresses(
        loaded(tmp_path, "by-default"),
        loaded(tmp_path, "orders", web=http(port=9000, host="localhost"), records=KAFKA),
        loaded(tmp_path, "everywhere", web=http(port=9001, host="0.0.0.0")),
        loaded(tmp_path, "records", records=KAFKA),
        loaded(tmp_path, "free", web=http(port=0)),
        loaded(tmp_path, "two", free=http(port=0), fixed=http(port=9002, host="::")),
        loaded(tmp_path, "off", records=KAFKA, web={**http(port=9003), "disabled": True}),
    )
    assert found == {
        "by-default": "127.0.0.1:8080",
        "orders": "localhost:9000",
        "everywhere": "127.0.0.1:9001",
        "free": "127.0.0.1:0",
        "two": "[::1]:9002",
    }


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("fe80::1", "[fe80::1]"),
        ("10.0.0.7", "10.0.0.7"),
        ("db.example", "db.example"),
    ],
)
def test_a_host_is_written_so_that_it_can_be_asked(host: str, found: str) -> None:
    assert host_in_url(host) == found
