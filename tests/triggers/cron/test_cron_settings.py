"""What a cron trigger accepts, and the one line for each mistake."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml
from root import ROOT

from headrace.runtime.config.delivery_policy import AckMode, FailurePolicy
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError
from headrace.triggers.cron.settings import CronSettings
from headrace.triggers.cron.trigger import CronTrigger

HEAD = """\
metadata: {name: f}
spec:
  handler: main:handler
  triggers:
    t:
      kind: cron
"""
HOURLY = {"schedule": "@hourly"}
AT = "spec.triggers.t.attributes"


def load(folder: Path, attributes: dict[str, Any], **fields: object) -> FunctionSpec:
    written = yaml.safe_dump({**fields, "attributes": attributes}, sort_keys=False)
    (folder / "function.yaml").write_text(HEAD + textwrap.indent(written, "      "))
    return load_function(folder)


def settings(folder: Path, attributes: dict[str, Any], **fields: object) -> CronSettings:
    own = load(folder, attributes, **fields).triggers[0].settings
    assert isinstance(own, CronSettings)
    return own


def test_the_defaults_are_nuclios_where_it_has_some(tmp_path: Path) -> None:
    own = settings(tmp_path, HOURLY)
    assert (own.time_zone, own.concurrency_policy, own.catch_up) == ("UTC", "Forbid", "once")
    assert own.on_failure.policy == FailurePolicy(1, 1.0, 30.0, then="report")
    assert (own.event.body, own.event.headers, own.event.path, own.event.method) == ("", {}, "", "")


@pytest.mark.parametrize(
    ("attributes", "name", "value"),
    [
        ({"Schedule": "*/5 * * * * *"}, "schedule", "*/5 * * * * *"),
        ({"interval": "1m30s"}, "interval_seconds", 90.0),
        ({"interval": "10ms"}, "interval_seconds", 0.01),
        (HOURLY | {"timezone": "Europe/Berlin"}, "time_zone", "Europe/Berlin"),
        (HOURLY | {"concurrencyPolicy": "ALLOW"}, "concurrency_policy", "Allow"),
        (HOURLY | {"concurrencyPolicy": "forbid"}, "concurrency_policy", "Forbid"),
        (HOURLY | {"catchUp": "Skip"}, "catch_up", "skip"),
        ({"interval": "1m", "schedule": ""}, "interval_seconds", 60.0),
    ],
)
def test_a_setting_is_read(tmp_path: Path, attributes: dict[str, Any], name: str, value: object) -> None:
    assert getattr(settings(tmp_path, attributes), name) == value


def test_nuclios_own_example_is_read_as_it_is(tmp_path: Path) -> None:
    event = {"body": '{"a": 1}', "headers": {"Extra-Header-1": "value", "count": 7}}
    function = load(tmp_path, {"interval": "3s", "event": event, "jobBackoffLimit": 2})
    own = function.triggers[0].settings
    assert (own.event.body, own.event.headers) == ('{"a": 1}', {"Extra-Header-1": "value", "count": 7})
    assert any("jobBackoffLimit: has no effect here" in notice for notice in function.notices)


def test_nobody_acks_and_the_dispatcher_leaves_attempts_to_the_trigger(tmp_path: Path) -> None:
    (spec,) = load(tmp_path, HOURLY | {"onFailure": {"maxAttempts": 5}}, explicitAckMode="enable").triggers
    policy = CronTrigger.delivery(spec.settings, spec.fields)
    assert (policy.ack_mode, policy.failure.max_attempts, policy.failure.then) == (
        AckMode.DISABLE,
        1,
        "report",
    )


def test_workers_that_never_have_anything_are_noticed(tmp_path: Path) -> None:
    function = load(tmp_path, HOURLY, numWorkers=4)
    (notice,) = (notice for notice in function.notices if "concurrencyPolicy" in notice)
    assert notice.endswith("Forbid runs one firing at a time, so 3 of the workers never have any")
    allowed = load(tmp_path, HOURLY | {"concurrencyPolicy": "Allow"}, numWorkers=4)
    assert not any("concurrencyPolicy" in notice for notice in allowed.notices)


@pytest.mark.parametrize(
    ("attributes", "line", "says"),
    [
        ({}, 7, "schedule: is required, or interval: say when to fire"),
        ({"event": {}}, 7, "schedule: is required, or interval"),
        ({"schedule": "* 2 * 3 7L", "timeZone": "Europe/Berlin"}, 8, "schedule: is no schedule: no day"),
        (HOURLY | {"interval": "1m"}, 8, "schedule: stands beside interval; a trigger goes by one"),
        ({"schedule": "* * * *"}, 8, "schedule: '* * * *' is no schedule: it has 4 fields; expected 5"),
        (
            {"schedule": "0 25 * * *"},
            8,
            "schedule: '0 25 * * *' is no schedule: its hour has '25'; expected 0 to 23",
        ),
        ({"schedule": "0 0 30 2 *"}, 8, "schedule: '0 0 30 2 *' is no schedule: no day is like"),
        ({"schedule": "@every 90s"}, 8, "schedule: '@every 90s' is an interval; set interval to '90s'"),
        ({"schedule": 5}, 8, "schedule: 5 is not a string"),
        ({"interval": "5ms"}, 8, "interval: '5ms' is out of range; expected at least 10ms"),
        ({"interval": "0s"}, 8, "interval: '0s' is out of range; expected at least 10ms"),
        ({"interval": 5}, 8, "interval: 5 is not a duration; expected something like 10s"),
        (HOURLY | {"timeZone": "Mars/Base"}, 9, "timeZone: 'Mars/Base' is no time zone known here"),
        (
            HOURLY | {"concurrencyPolicy": "Replace"},
            9,
            "concurrencyPolicy: 'Replace' is known, but not built",
        ),
        (HOURLY | {"concurrencyPolicy": "Wait"}, 9, "concurrencyPolicy: 'wait' is not known here; expected"),
        (HOURLY | {"catchUp": "all"}, 9, "catchUp: 'all' is not known here; expected 'once' or 'skip'"),
        (HOURLY | {"event": {"headers": ["a"]}}, 10, "event.headers: the list expected a mapping from names"),
        (
            HOURLY | {"event": {"headers": {"a": True}}},
            10,
            "event.headers: a mapping expected a mapping from",
        ),
        (HOURLY | {"event": {"headers": {"a": 2**63}}}, 10, "event.headers: a mapping expected a mapping"),
        (HOURLY | {"event": {"body": {"a": 1}}}, 10, "event.body: a mapping is not a string"),
        (HOURLY | {"event": {"boddy": ""}}, 10, "event.boddy: unknown key; the nearest known key is body"),
        (HOURLY | {"onFailure": {"then": "halt"}}, 10, "onFailure.then: unknown key"),
        (HOURLY | {"onFailure": {"maxAttempts": -1}}, 10, "onFailure.maxAttempts: -1 is out of range"),
        (HOURLY | {"intervall": "1m"}, 9, "intervall: unknown key; the nearest known key is interval"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    tmp_path: Path, attributes: dict[str, Any], line: int, says: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, attributes)
    (said,) = str(raised.value).splitlines()
    assert said.startswith(f"{tmp_path}/function.yaml:{line}: {AT}.{says}"), said


def test_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, HOURLY, batch={"mode": "enable"})
    (said,) = str(raised.value).splitlines()
    assert "enable is known, but not built into this version of Headrace yet for cron" in said


def test_the_full_example_is_one(tmp_path: Path) -> None:
    (spec,) = load_function(ROOT / "specs/cron-full.yaml").triggers
    assert spec.settings.schedule == "0 * * * *"
    assert spec.settings.model_copy(update={"schedule": "@hourly"}) == settings(tmp_path, HOURLY)
