"""`headrace new`: a working function to start from."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.processes import write_for_others
from headrace.runtime.settings.names import NAME_RULE, is_name

_FILES = ("function.yaml", "handler.py", "test_handler.py", "README.md")
_PLACEHOLDER = "NAME"
_KAFKA = "kafka"
_TEMPLATES = ("async", "batch", "http", _KAFKA, "spark")
_READY_MADE = resources.files("headrace.functions")
_SPEC, _README = "function.yaml", "README.md"


@click.command()
@click.argument("name")
@click.option(
    "--from",
    "ready_made",
    type=click.Choice(sorted(it.name for it in _READY_MADE.iterdir() if (it / _SPEC).is_file())),
    help="Set up a ready-made function: its function.yaml and README. Its code stays in the package.",
)
@click.option(
    "--template",
    type=click.Choice(_TEMPLATES),
    help="What the function is like: called for each record of a topic, which is what you get without it "
    "(kafka), for many at once (batch, spark), many at a time (async), or for each request (http).",
)
def new(name: str, ready_made: str | None, template: str | None) -> None:
    """Make a folder NAME with a function that runs: function.yaml, handler, its tests, README."""
    if ready_made is not None and template is not None:
        raise UsageError("--from has a function whole, and --template one to write: give one of them")
    if not is_name(name):
        raise UsageError(f"{name!r} is no name for a function; {NAME_RULE}")
    template = template or _KAFKA
    files = _template(name, template) if ready_made is None else _copy(ready_made, name)
    _write(Path(name), files)
    click.echo(f"{name}/ has {', '.join(files)}. Next:\n")
    run = "headrace run ." if template == "http" else "headrace run . --embedded-kafka"
    steps = ("python -m pytest", run) if ready_made is None else (f"cat {_README}",)
    for command in (f"cd {name}", *steps):
        click.echo(f"    {command}")


def _template(name: str, template: str) -> dict[str, str]:
    folder = resources.files("headrace.specs") / "new-function" / template
    return {file: (folder / file).read_text(encoding="utf-8").replace(_PLACEHOLDER, name) for file in _FILES}


def _copy(ready_made: str, name: str) -> dict[str, str]:
    """With its name in the place of the ready-made one's: the function's, the group's, the database's."""
    spec, readme = (
        (_READY_MADE / ready_made / file).read_text(encoding="utf-8") for file in (_SPEC, _README)
    )
    its_name = ready_made.replace("_", "-")
    return {_SPEC: spec.replace(its_name, name), _README: readme.replace(its_name, name)}


def _write(folder: Path, files: Mapping[str, str]) -> None:
    write_for_others()
    try:
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{folder} is there already; choose another name or another folder") from None
    except OSError as error:
        raise UsageError(f"{folder} can't be made here: {error.strerror}") from None
