"""`headrace new`: a working function to start from."""

from importlib import resources
from pathlib import Path

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.processes import write_for_others
from headrace.runtime.settings.names import NAME_RULE, is_name

_FILES = ("function.yaml", "handler.py", "test_handler.py", "README.md")
_PLACEHOLDER = "NAME"


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a folder NAME with a function that runs: function.yaml, handler, its tests, README."""
    if not is_name(name):
        raise UsageError(f"{name!r} is no name for a function; {NAME_RULE}")
    _write(Path(name), name)
    click.echo(f"{name}/ has {', '.join(_FILES)}. Next:\n")
    for command in (f"cd {name}", "python -m pytest", "headrace run . --embedded-kafka"):
        click.echo(f"    {command}")


def _write(folder: Path, name: str) -> None:
    write_for_others()
    templates = resources.files("headrace.specs") / "new-function"
    try:
        folder.mkdir()
        for file in _FILES:
            text = (templates / file).read_text(encoding="utf-8")
            (folder / file).write_text(text.replace(_PLACEHOLDER, name), encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{folder} is there already; choose another name or another folder") from None
    except OSError as error:
        raise UsageError(f"{folder} can't be made here: {error.strerror}") from None
