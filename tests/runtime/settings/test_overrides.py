"""`--set key=value`: what the command line gives instead of the file."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from function_files import KINDS, VALID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError, UsageError
from headrace.runtime.settings.overrides import overridden, parse_override, parse_overrides
from headrace.runtime.settings.yaml_source import read_yaml

AT = "triggers.t.attributes"


def load_set(folder: Path, *texts: str) -> FunctionSpec:
    (folder / "function.yaml").write_text(yaml.safe_dump(VALID))
    return load_function(folder, KINDS, tuple(map(parse_override, texts)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("triggers.t.numWorkers=4", 4),
        ("spec.disable=true", True),
        ("a.b=20s", "20s"),
        ("a=x=y", "x=y"),
        ("a=[x, 'y']", ["x", "y"]),
        ("a={b: 1}", {"b": 1}),
        ("a=", None),
        ("a=''", ""),
    ],
)
def test_a_value_is_yaml(text: str, value: object) -> None:
    assert parse_override(text).value == value
    assert parse_override(text).path[0] == "spec"


@pytest.mark.parametrize("text", ["", "a", "=1", "a..b=1", "a.=1", "a=[hunter2", "a=!hunter2"])
def test_what_is_no_key_and_value_is_one_line_without_the_value(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--set ") as raised:
        parse_override(text)
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_the_command_line_beats_file_and_annotation(tmp_path: Path) -> None:
    function = load_set(
        tmp_path, f"{AT}.sessionTimeout=20s", f"{AT}.topics=[x, z]", "triggers.t.numWorkers=3"
    )
    trigger = function.triggers[0]
    assert (trigger.settings.session_timeout_seconds, trigger.settings.topics) == (20.0, ("x", "z"))
    assert trigger.num_workers == 3
    assert trigger.origins["topics"] == "command line"


def test_the_last_of_two_counts(tmp_path: Path) -> None:
    function = load_set(
        tmp_path, f"{AT}.sasl={{user: a, password: b}}", f"{AT}.sasl.user=c", f"{AT}.sasl.user=d"
    )
    assert (function.triggers[0].settings.sasl.user, function.triggers[0].settings.sasl.password) == (
        "d",
        "b",
    )


def test_a_whole_trigger_may_be_added(tmp_path: Path) -> None:
    more: dict[str, Any] = VALID["spec"]["triggers"]["t"]
    function = load_set(tmp_path, f"triggers.more={yaml.safe_dump(more, default_flow_style=True)}")
    assert [trigger.name for trigger in function.triggers] == ["t", "more"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{AT}.sessionTimeout=soon", f"(--set): spec.{AT}.sessionTimeout: 'soon' is not a duration"),
        (
            f"{AT}.sesionTimeout=1s",
            f"(--set): spec.{AT}.sesionTimeout: unknown key; the nearest known key is",
        ),
        (
            f"{AT}.tls.enabled=true",
            f"(--set): spec.{AT}.tls.enabled: unknown key; the nearest known key is enable",
        ),
        (f"{AT}.topics.x=1", f"(--set): spec.{AT}.topics.x: leads into something that is no mapping"),
        (f"{AT}.fetchMin.x=1", f"(--set): spec.{AT}.fetchMin: a mapping is not an int"),
        (f"{AT}.topics=", f"(--set): spec.{AT}.topics: is required: a list of at least one topic"),
    ],
)
def test_what_is_wrong_with_one_says_that_it_is(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_set(tmp_path, text)
    (problem,) = raised.value.problems
    assert says in str(problem)
    assert (problem.line, problem.via) == (0, "--set")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.lists(
        st.sampled_from(["spec", "triggers", "t", "attributes", "sasl", "topics", "env"]) | st.text()
    ),
    value=st.text() | st.sampled_from(["1", "[a]", "{a: b}", "10s", "true", "0x" + "f" * 5000]),
)
def test_any_text_gives_a_function_or_says_why(tmp_path: Path, keys: list[str], value: str) -> None:
    with contextlib.suppress(UsageError, ConfigError):
        load_set(tmp_path, f"{'.'.join(keys)}={value}")


def test_several_functions_take_no_override() -> None:
    with pytest.raises(UsageError, match="--set names a setting of one function: give one PATH with it"):
        parse_overrides(["triggers.a.numWorkers=4"], ["a", "b"])


def test_a_section_with_nothing_below_it_is_filled() -> None:
    text = "spec:\n  triggers:\n"
    source = overridden(read_yaml(text, "function.yaml"), (parse_override("triggers.t.kind=kafka"),))
    assert source.data == {"spec": {"triggers": {"t": {"kind": "kafka"}}}}
