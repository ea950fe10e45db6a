"""`headrace run`: its options are declared once, and what is meant for replicas reaches them."""

import logging
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.cli.run import _warn_of_free_threading, run
from headrace.runtime.processor.option_fields import CommandOption, Reach, declared
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.replica import Replica

FOLDER = Path("/run/replicas")


def parsed(*words: str) -> RunOptions:
    """As the command takes them."""
    return RunOptions(**run.make_context("run", list(words)).params)


def words_to_a_replica(options: RunOptions) -> list[str]:
    command = Replica("replica-1", options, FOLDER, index=5)._command(7)
    assert command[:5] == [sys.executable, "-P", "-m", "headrace", "run"]
    return command[5:]


def another_than_the_default(one: CommandOption) -> list[str]:
    """Words that set it. An option of a kind that isn't known here fails: say how it is written."""
    (parameter,) = (parameter for parameter in run.params if parameter.name == one.name)
    value = _another_value(one, parameter)
    return [*value, "f"] if one.flag else ["--", "-a", "b"]


def _another_value(one: CommandOption, parameter: click.Parameter) -> list[str]:
    if parameter.metavar == "HOST:PORT":
        return [one.flag, "127.0.0.1:1,[::1]:2", one.flag, "c:3"]
    if parameter.metavar == "URL":
        return [one.flag, "https://[::1]:2"]
    match parameter.type:
        case _ if one.default is False or not one.flag:
            return [one.flag]
        case click.Choice(choices=choices):
            return [one.flag, next(choice for choice in choices if choice != one.default)]
        case click.types.IntParamType():
            return [one.flag, str((one.default or 0) + 1)]
        case click.types.StringParamType() | click.Path():
            return [one.flag, "--x=y z"]
    raise AssertionError(f"{one.flag} is of a type that this test doesn't know: {parameter.type!r}")


@pytest.mark.parametrize("one", declared(RunOptions), ids=lambda one: one.name)
def test_each_option_goes_as_far_as_its_declaration_says(one: CommandOption) -> None:
    options = parsed("--replicas", "7", *another_than_the_default(one))
    said = getattr(options, one.name)
    assert said != one.default
    heard = getattr(parsed(*words_to_a_replica(options)), one.name)
    match one.reach:
        case Reach.EVERYBODY:
            assert heard == said
        case Reach.PARENT:
            assert heard == one.default
        case Reach.REPLICA:  # its supervisor says it, of each replica
            assert heard not in {said, one.default}


def test_a_replica_is_told_who_it_is() -> None:
    told = parsed(*words_to_a_replica(parsed("f")))
    assert (told.replica_name, told.replica_index, told.parent_fd) == ("replica-1", 5, 7)
    assert told.admin == FOLDER / "replica-1.sock"


@given(
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=3),
    st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), min_size=1),
)
def test_any_text_reaches_a_replica_as_it_was_written(texts: list[str], paths: list[str]) -> None:
    options = RunOptions(paths=tuple(map(Path, paths)), set_texts=tuple(texts))
    told = replace(parsed(*words_to_a_replica(options)), replica_name="r").of_parent(options.environment())
    assert (told.set_texts, told.paths) == (options.set_texts, options.paths)


@pytest.mark.parametrize("is_disabled", [0, 1, None])
def test_a_free_threaded_python_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_disabled: int | None
) -> None:
    given = {"Py_GIL_DISABLED": is_disabled}  # None before Python 3.13
    monkeypatch.setattr(sysconfig, "get_config_var", given.get)
    with caplog.at_level(logging.INFO):
        _warn_of_free_threading()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (is_disabled == 1)
    assert all("free-threaded build" in line and "usual build" in line for line in lines)
