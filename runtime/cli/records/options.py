"""Options that several commands share: for whom they print, how often, and which records they send."""

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
_RECORD_OPTIONS = (
    click.option("--keyed", is_flag=True, help="Lines are key<TAB>value."),
    click.option("--count", type=click.IntRange(min=1), help="Make this many records; no stdin."),
    click.option("--size", type=click.IntRange(min=1), default=100, show_default=True, help="Bytes."),
    click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records per second."),
)


def watch_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say how often it looks: `interval` in seconds, and `count`."""
    # The one that is applied last stands first in --help.
    for option in reversed(_WATCH_OPTIONS):
        command = option(command)
    return command


def record_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which records it sends, and how fast."""
    for option in reversed(_RECORD_OPTIONS):
        command = option(command)
    return command
