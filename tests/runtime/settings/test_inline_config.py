"""Inline configuration: the comment block at the top of a handler's file."""

import contextlib
import textwrap
from pathlib import Path

import pytest
from function_files import KINDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError

HANDLER = '''\
"""Words of a handler."""
# A comment of its own.

# @nuclio.configure
#
# function.yaml:
#   metadata:
#     name: greeter
#   spec:
#     handler: greet:hello
#     triggers:
#       names:
#         kind: kafka-cluster
#         attributes:
#           topics: [names]
#           brokers: ["b:9092"]
#           consumerGroup: g
#

def hello(context, event): ...
def handler(context, event): ...
# fetchMin: x
'''


def load(folder: Path, text: str, *, with_handler: bool = True) -> FunctionSpec:
    file = folder / "greet.py"
    file.write_text(textwrap.dedent(text))
    return load_function(file, KINDS, with_handler=with_handler)


def problem_of(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(folder, text)
    (problem,) = raised.value.problems
    return str(problem).removeprefix(f"{folder}/")


def test_a_handlers_file_may_hold_its_configuration(tmp_path: Path) -> None:
    function = load(tmp_path, HANDLER)
    assert (function.name, function.handler_module, function.handler_function) == (
        "greeter",
        "greet",
        "hello",
    )
    assert (function.path, function.folder) == (tmp_path / "greet.py", tmp_path)
    assert function.triggers[0].settings.topics == ("names",)


def test_the_file_names_function_and_handler_where_the_block_does_not(tmp_path: Path) -> None:
    text = HANDLER.replace("#     handler: greet:hello\n", "")
    text = text.replace("#   metadata:\n#     name: greeter\n", "")
    function = load(tmp_path, text)
    assert (function.name, function.handler) == ("greet", "greet:handler")
    assert {s.path: s.origin for s in function.settings}["spec.handler"] == "fallback"


@pytest.mark.parametrize("change", [("# ", "#  "), ("\n", "\r\n"), ("# @nuclio", "#    @nuclio")])
def test_the_blocks_own_layout_does_not_matter(tmp_path: Path, change: tuple[str, str]) -> None:
    assert load(tmp_path, HANDLER.replace(*change)).name == "greeter"


def test_a_problem_has_the_line_of_the_handlers_file(tmp_path: Path) -> None:
    text = HANDLER.replace("topics: [names]", "topics: names")
    assert problem_of(tmp_path, text).startswith(
        "greet.py:15: spec.triggers.names.attributes.topics: 'names' is"
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["b:9092"]', '["b:9092"', "greet.py:17: not YAML: did not find expected ',' or ']' (column 13)"),
        ("#   spec:", "#\tspec:", "greet.py:9: not YAML: tabs cannot indent; use spaces (column 2)"),
        ("function.yaml:", "function.yml:", "greet.py:6: function.yml: unknown key in @nuclio.configure;"),
        (
            "@nuclio.configure",
            "nuclio",
            "greet.py: has no inline configuration, a comment block that begins with",
        ),
    ],
)
def test_a_block_that_is_none_is_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert problem_of(tmp_path, HANDLER.replace(old, new)).startswith(says)


def test_an_empty_block_is_one_line(tmp_path: Path) -> None:
    says = "greet.py: @nuclio.configure holds no function.yaml: with the configuration below it"
    assert problem_of(tmp_path, "# @nuclio.configure\n\n# function.yaml: {}\n") == says
    assert "is empty or no mapping" in problem_of(tmp_path, "# @nuclio.configure\n# function.yaml:\n")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, len(HANDLER)), more=st.text(max_size=5) | st.sampled_from(["\n", "#", "\t", "\n\n#"])
)
def test_any_change_of_a_file_gives_a_function_or_problems(tmp_path: Path, at: int, more: str) -> None:
    text = HANDLER[:at] + more + HANDLER[at + len(more) :]
    (tmp_path / "greet.py").write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(ConfigError):
        load_function(tmp_path / "greet.py", KINDS, with_handler=True)
