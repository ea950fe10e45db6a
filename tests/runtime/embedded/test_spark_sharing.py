"""Several functions and the one Spark Connect server that they share."""

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_files import VALID, load_text

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.spark.sharing import share_spark
from headrace.runtime.errors import ConfigError


def function(folder: Path, name: str, spark: dict[str, Any], **env: str) -> FunctionSpec:
    (folder / name).mkdir()
    entries = [{"name": key, "value": value} for key, value in env.items()]
    spec = {**VALID["spec"], "spark": spark, "env": entries}
    return load_text(folder / name, yaml.safe_dump({**VALID, "metadata": {"name": name}, "spec": spec}))


def test_packages_conf_and_folders_come_together(tmp_path: Path) -> None:
    orders = function(tmp_path, "orders", {"packages": ["g:a:1", "g:b:1"], "conf": {"spark.a": "1"}})
    prices = function(tmp_path, "prices", {"packages": ["g:b:1", "g:c:1"], "conf": {"spark.a": "1"}})
    shared = share_spark([orders, prices])
    assert shared.name == "orders, prices"
    assert shared.spec.packages == ("g:a:1", "g:b:1", "g:c:1")
    assert shared.spec.conf == {"spark.a": "1"}
    assert shared.folders == (tmp_path / "orders", tmp_path / "prices")


def test_what_they_disagree_on_is_said_at_once_and_shows_no_values(tmp_path: Path) -> None:
    orders = function(tmp_path, "orders", {"conf": {"spark.key": "hunter2"}})
    prices = function(tmp_path, "prices", {"master": "spark://h:7077", "conf": {"spark.key": "hunter3"}})
    with pytest.raises(ConfigError) as raised:
        share_spark([orders, prices])
    master, conf = str(raised.value).splitlines()
    assert master.startswith(f"{prices.path}: spec.spark.master: is spark://h:7077, and local[*] for orders")
    assert conf.startswith(f"{prices.path}: spec.spark.conf.spark.key: has another value than for orders")
    assert "hunter" not in str(raised.value)


def test_a_variable_that_they_disagree_on_is_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders = function(tmp_path, "orders", {}, REGION="eu", SECRET="hunter2")
    prices = function(tmp_path, "prices", {}, REGION="eu", SECRET="hunter3", LEVEL="9")
    with caplog.at_level(logging.WARNING):
        assert share_spark([orders, prices]).env == {"REGION": "eu", "LEVEL": "9"}
    assert "doesn't get SECRET:" in caplog.text
    assert "hunter" not in caplog.text


def test_a_zone_that_not_all_of_them_name_is_nobodys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders, prices = function(tmp_path, "orders", {}, TZ="Asia/Tokyo"), function(tmp_path, "prices", {})
    assert share_spark([orders]).env == {"TZ": "Asia/Tokyo"}
    assert share_spark([prices]).env == {}
    assert not caplog.records
    assert share_spark([orders, prices]).env == {}
    assert "doesn't get TZ:" in caplog.text
