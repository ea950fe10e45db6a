"""`headrace schema --commands`: the published page is as the commands are now."""

from collections.abc import Iterator

import click
import pytest
from command import one_line, run
from root import ROOT

from headrace.runtime.cli.main import headrace
from headrace.runtime.cli.reference_pages import command_reference

PAGE = ROOT / "docs/reference/command-line.md"


def commands(context: click.Context) -> Iterator[click.Context]:
    yield context
    group = context.command
    for name in group.list_commands(context) if isinstance(group, click.Group) else ():
        command = group.get_command(context, name) if isinstance(group, click.Group) else None
        assert command is not None
        yield from commands(click.Context(command, info_name=name, parent=context))


def test_the_published_page_is_up_to_date() -> None:
    assert PAGE.read_text() == run("schema", "--commands").stdout, (
        "headrace schema --commands > docs/reference/command-line.md"
    )


@pytest.mark.parametrize(
    "context", list(commands(click.Context(headrace, info_name="headrace"))), ids=lambda c: c.command_path
)
def test_every_command_and_option_is_in_it_but_hidden_ones(context: click.Context) -> None:
    (section,) = (
        part for part in PAGE.read_text().split("## `") if part.startswith(f"{context.command_path}`")
    )
    for option in (param for param in context.command.params if isinstance(param, click.Option)):
        assert (f"`{option.opts[0]}" in section) != option.hidden, option.opts


def test_a_hidden_command_is_left_out() -> None:
    group = click.Group("g", commands=[click.Command("seen"), click.Command("unseen", hidden=True)])
    page = command_reference(click.Context(group, info_name="g"))
    assert "## `g seen`" in page
    assert "unseen" not in page


def test_one_page_at_a_time() -> None:
    assert "give one of them" in one_line(run("schema", "--commands", "--markdown"), 2)
