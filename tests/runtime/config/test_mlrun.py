"""A file that mlrun has written is known by what mlrun puts into each."""

from pathlib import Path
from typing import Any

import pytest
from function_files import Change, load_changed

_EXPLICIT = {"explicitAckMode": "explicitOnly"}


def _labels(document: dict[str, Any]) -> None:
    document["metadata"]["labels"] = {"mlrun/class": "serving", "nuclio.io/project-name": "p"}


def _variable(document: dict[str, Any]) -> None:
    document["spec"]["env"] = [{"name": "MLRUN_DEFAULT_PROJECT", "value": "p"}]


def _spec_of_a_graph(document: dict[str, Any]) -> None:
    document["spec"]["env"] = [{"name": "SERVING_SPEC_ENV", "valueFrom": {"secretKeyRef": {"name": "s"}}}]


@pytest.mark.parametrize("change", [_labels, _variable, _spec_of_a_graph])
def test_a_function_of_mlruns_is_known_and_says_what_follows(tmp_path: Path, change: Change) -> None:
    def changed(document: dict[str, Any]) -> None:
        change(document)
        document["spec"]["triggers"]["t"].update(_EXPLICIT)

    function = load_changed(tmp_path, changed)
    assert function.is_from_mlrun
    assert any("explicitAckSemantics is cumulative" in notice for notice in function.notices)


def test_other_functions_are_not(tmp_path: Path) -> None:
    function = load_changed(tmp_path, lambda d: d["metadata"].update(labels={"nuclio.io/project-name": "p"}))
    assert not function.is_from_mlrun


def test_workers_find_the_variables_that_nuclio_sets(tmp_path: Path) -> None:
    def changed(document: dict[str, Any]) -> None:
        document["spec"].update(description="Adds up.", version=3, env=[{"name": "A", "value": "b"}])

    function = load_changed(tmp_path, changed)
    assert function.worker_env == {
        "NUCLIO_FUNCTION_NAME": function.name,
        "NUCLIO_FUNCTION_DESCRIPTION": "Adds up.",
        "NUCLIO_FUNCTION_VERSION": "3",
        "NUCLIO_FUNCTION_HANDLER": "main:handler",
        "NUCLIO_HANDLER": "main:handler",
        "A": "b",
    }
