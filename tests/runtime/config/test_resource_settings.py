"""`spec.resources` and `spec.eventTimeout`: what a worker may take, and how long a handler may."""

from pathlib import Path
from typing import Any

import pytest
from function_files import KINDS, SPECS, Change, load_changed, problems_of

from headrace.runtime.config.function_reader import load_function


def _spec(**fields: Any) -> Change:
    return lambda document: document["spec"].update(fields)


def _memory(quantity: object) -> Change:
    return _spec(resources={"limits": {"memory": quantity}})


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("512Mi", 512 * 1024**2),
        ("1G", 10**9),
        ("1.5Gi", 1536 * 1024**2),
        ("134217728", 134217728),
        (134217728, 134217728),
        ("128974848000m", 128974848),
        ("129e6", 129_000_000),
        ("129E+6", 129_000_000),
        ("70000000.5", 70_000_001),
        (129e6, 129_000_000),
        ("+1Gi", 1024**3),
        ("100000k", 100_000_000),
        (".5Gi", 512 * 1024**2),
        ("1.Gi", 1024**3),
        ("1E", 10**18),
        ("9Ei", 2**63 - 1),
        ("64Mi", 64 * 1024**2),
    ],
)
def test_a_memory_limit_is_a_kubernetes_quantity(tmp_path: Path, quantity: object, size: int) -> None:
    function = load_changed(tmp_path, _memory(quantity))
    assert function.memory_limit_bytes == size
    assert function.notices == ()


@pytest.mark.parametrize(
    "quantity",
    ["1 Gi", "1gi", "1GB", "Gi", "-1Gi", "1e", "1e1000", "1Gi1", "٣Gi", "1" * 101, ".", "1_0Mi"],
)
def test_text_that_is_no_quantity_is_one_line(tmp_path: Path, quantity: str) -> None:
    text = problems_of(tmp_path, _memory(quantity))
    assert "spec.resources.limits.memory: " in text
    assert " is not a quantity; expected something like 512Mi or 1.5G" in text
    assert text.count("\n") == 0


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ({"limits": {"memory": True}}, "limits.memory: true is not a quantity"),
        ({"limits": {"memory": ["1Gi"]}}, "limits.memory: the list is not a quantity"),
        ({"limits": {"memory": float("nan")}}, "limits.memory: nan is not a quantity"),
        (
            {"limits": {"memory": "63Mi"}},
            "'63Mi' is 66060288 bytes; a worker needs at least 64Mi to run at all",
        ),
        ({"limits": {"memory": "512m"}}, "'512m' is 1 bytes; a worker needs at least 64Mi to run at all"),
        ({"limits": {"memory": 0}}, "0 is 0 bytes; a worker needs at least 64Mi to run at all"),
        ({"limits": {"memry": "1Gi"}}, "limits.memry: unknown key; the nearest known key is memory"),
        ({"limits": []}, "limits: this is no mapping"),
        ({"requests": {"cpu": "lots"}}, "requests.cpu: 'lots' is not a quantity"),
        ({"requests": {"memory": "x"}}, "requests.memory: 'x' is not a quantity"),
        ({"limit": {}}, "resources.limit: unknown key; the nearest known key is limits"),
        ([], "resources: this is no mapping"),
    ],
)
def test_wrong_resources_are_one_line_each(tmp_path: Path, resources: object, says: str) -> None:
    text = problems_of(tmp_path, _spec(resources=resources))
    assert "spec.resources" in text
    assert says in text
    assert text.count("\n") == 0


def test_what_only_kubernetes_uses_is_one_line_each(tmp_path: Path) -> None:
    resources = {
        "limits": {"memory": "1Gi", "cpu": 2, "nvidia.com/gpu": 1, "ephemeral-storage": "1Gi"},
        "requests": {"memory": "1Mi", "cpu": "25m", "hugepages-2Mi": "4Mi"},
    }
    function = load_changed(tmp_path, _spec(resources=resources))
    names = ("limits.cpu", "limits.nvidia.com/gpu", "limits.ephemeral-storage")
    for name in (*names, "requests.memory", "requests.cpu", "requests.hugepages-2Mi"):
        assert sum(f" spec.resources.{name}: has no effect here: " in line for line in function.notices) == 1
    assert len(function.notices) == 6
    assert function.memory_limit_bytes == 1024**3


@pytest.mark.parametrize("limits", [{}, {"memory": ""}])
def test_empty_resources_say_nothing(tmp_path: Path, limits: dict[str, str]) -> None:
    function = load_changed(tmp_path, _spec(resources={"limits": limits, "requests": {}}))
    assert (function.memory_limit_bytes, function.notices) == (None, ())


@pytest.mark.parametrize(("written", "seconds"), [("5s", 5.0), ("1ms", 0.001), ("", None)])
def test_an_event_timeout_is_seconds(tmp_path: Path, written: str, seconds: float | None) -> None:
    assert load_changed(tmp_path, _spec(eventTimeout=written)).event_timeout_seconds == seconds


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("0", "'0' is out of range; expected more than 0s"),
        ("-5s", "'-5s' is out of range; expected more than 0s"),
        (5, "5 is not a duration; expected something like 10s or 1m30s"),
    ],
)
def test_a_wrong_event_timeout_is_one_line(tmp_path: Path, written: object, says: str) -> None:
    text = problems_of(tmp_path, _spec(eventTimeout=written))
    assert f" spec.eventTimeout: {says}" in text
    assert text.count("\n") == 0


@pytest.mark.parametrize("name", ["kafka-minimal", "kafka-full"])
def test_the_published_examples_set_neither(name: str) -> None:
    function = load_function(SPECS / f"{name}.yaml", KINDS)
    assert (function.event_timeout_seconds, function.memory_limit_bytes) == (None, None)
