"""YAML to plain data with lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.settings.yaml_source import YamlSource, read_yaml, show_path


def _read(text: str) -> YamlSource:
    return read_yaml(text, "function.yaml")


def _only_problem(text: str) -> str:
    (problem,) = _read(text).problems
    return str(problem)


def test_every_key_and_item_knows_its_line() -> None:
    source = _read("a:\n  b: 1\n  c:\n    - x\n    - d: 2\n")
    assert source.data == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert source.lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", 0): 4,
        ("a", "c", 1): 5,
        ("a", "c", 1, "d"): 5,
    }


def test_a_path_that_is_not_written_has_the_line_of_what_is_above_it() -> None:
    assert _read("a:\n  b: 1\n").line(("a", "b", "c", 0)) == 2
    assert _read("a: 1\n").line(("x",)) == 0


def test_paths_print_like_code() -> None:
    assert show_path(("spec", "env", 0, "name")) == "spec.env[0].name"


def test_scalars_have_their_types_and_times_stay_text() -> None:
    source = _read('[1, 1.5, true, "5", 1:30, 2020-01-01, 0x_, !!int no, ~]')
    assert source.data == [1, 1.5, True, "5", "1:30", "2020-01-01", "0x_", "no", None]


def test_keys_are_text_whatever_they_look_like() -> None:
    assert _read("1: a\non: b\n").data == {"1": "a", "on": "b"}


def test_a_key_written_twice_is_a_problem_on_its_second_line() -> None:
    assert _only_problem("a:\n  b: 1\n  b: 2\n") == (
        "function.yaml:3: a.b: written twice; the first is on line 2"
    )


def test_a_merged_mapping_gives_way_to_what_is_written() -> None:
    source = _read("base: &base {a: 1, b: 2}\nmine:\n  <<: *base\n  b: 3\n")
    assert source.data == {"base": {"a": 1, "b": 2}, "mine": {"a": 1, "b": 3}}
    assert source.problems == ()


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a:\n\t- b", 2, "tabs cannot indent; use spaces (column 1)"),
        ("a: b: c", 1, "mapping values are not allowed in this context (column 5)"),
        ("x: 1\na: [1,", 2, "column"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: 1\nb: \x01", 2, "control character"),
        ("[" * 5000, 1, "nested more than 100 levels deep"),
        ("a: &a [*a]", 1, "contains it"),
        ("a: &a {<<: *a}", 1, "<< merges"),
        ("a: {<<: 1}", 1, "<< merges"),
        ("a: !!python/object:os.system x", 1, "tags"),
        ("a: !!set {x}", 1, "tags"),
        ("? [a]\n: b", 1, "a key must be plain text"),
    ],
)
def test_what_is_not_plain_yaml_is_one_problem_with_a_line(text: str, line: int, says: str) -> None:
    problem = _only_problem(text)
    assert problem.startswith(f"function.yaml:{line}:")
    assert says in problem


@pytest.mark.parametrize("kind", ["[{0}, {0}]", "{{<<: [{0}, {0}]}}"])
def test_nested_aliases_cannot_blow_up(kind: str) -> None:
    levels = [f"a{n}: &a{n} {kind.format(f'*a{n - 1}')}" for n in range(1, 40)]
    problem = _only_problem("\n".join(["a0: &a0 {x: 1}", *levels]))
    assert "aliases expanded" in problem


@pytest.mark.parametrize("value", ["*hunter2", "!hunter2", "!hunter2!x y", "&hunter2 *hunter2", "[hunter2"])
def test_a_message_never_repeats_an_unquoted_secret(value: str) -> None:
    assert "hunter2" not in "".join(map(str, _read(f"password: {value}\n").problems))


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@`? \n\t<0.,~\ud800\x00é")) | st.text())
def test_any_text_gives_data_or_problems(text: str) -> None:
    source = _read(text)
    assert isinstance(source.data, dict | list | str | int | float | bool | None)
