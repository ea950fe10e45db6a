"""Paths of which nobody can tell whether they are there: pathlib raised for them before Python 3.14."""

from pathlib import Path

import pytest

from headrace.functions.spark_pipeline.settings import PipelineError, read_settings
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.handler_lookup import handler_fault
from headrace.runtime.errors import ConfigError

TOO_LONG = "x" * 256


def test_a_function_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{TOO_LONG}: cannot be read: File name too long"):
        load_function(tmp_path / TOO_LONG)


def test_a_handler_there_is_said(tmp_path: Path) -> None:
    said = handler_fault(tmp_path, TOO_LONG, "handler")
    assert said == f"{tmp_path}/{TOO_LONG}.py cannot be read: File name too long"


def test_a_query_there_is_said() -> None:
    with pytest.raises(PipelineError, match=f"PIPELINE_SQL_FILE: {TOO_LONG} cannot be read"):
        read_settings({"PIPELINE_SCHEMA": "id INT", "PIPELINE_SQL_FILE": TOO_LONG})
