"""The options of commands that print something: for whom, and how often."""

from collections.abc import Callable

import click

as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
_WATCH_OPTIONS = (
    click.option(
        "--interval",
        type=click.FloatRange(min=0.1),
        default=1.0,
        show_default=True,
        help="Seconds from one look to the next.",
    ),
    click.option("--count", type=click.IntRange(min=1), help="Stop after so many looks; else at Ctrl-C."),
)


def watch_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how often it looks: `interval` in seconds, and `count`."""
    for option in reversed(_WATCH_OPTIONS):
        command = option(command)
    return command
