"""`headrace new`: a working function to start from."""

from collections.abc import Collection, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.processes import write_for_others
from headrace.runtime.settings.names import NAME_RULE, is_name

_FILES = ("function.yaml", "handler.py", "test_handler.py", "README.md")
_PLACEHOLDER = "NAME"  # in templates, for the name of the function
_KAFKA = "kafka"
_TEMPLATES = ("async", "batch", "http", _KAFKA, "spark")
_READY_MADE = resources.files("headrace.functions")
_EXAMPLES = resources.files("headrace.examples")
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
@click.option(
    "--example",
    type=click.Choice(sorted(it.name for it in _EXAMPLES.iterdir() if (it / _SPEC).is_file())),
    help="Copy an example, all of it.",
)
def new(name: str, ready_made: str | None, template: str | None, example: str | None) -> None:
    """Make a folder NAME with a function that runs: function.yaml, handler, its tests, README."""
    if sum(given is not None for given in (ready_made, template, example)) > 1:
        raise UsageError("--from, --template and --example each make another function: give one of them")
    if not is_name(name):
        raise UsageError(f"{name!r} is no name for a function; {NAME_RULE}")
    if ready_made or example:
        folder = _READY_MADE / ready_made if ready_made else _EXAMPLES / (example or "")
        files, steps = _copy(folder, name, only=() if example else (_SPEC, _README)), [f"cat {_README}"]
    else:
        files = _template(name, template or _KAFKA)
        steps = ["python -m pytest", f"headrace run .{'' if template == 'http' else ' --embedded-kafka'}"]
    _write(Path(name), files)
    click.echo(f"{name}/ has {', '.join(files)}. Next:\n")
    for command in (f"cd {name}", *steps):
        click.echo(f"    {command}")


def _template(name: str, template: str) -> dict[str, str]:
    folder = resources.files("headrace.specs") / "new-function" / template
    return {file: (folder / file).read_text(encoding="utf-8").replace(_PLACEHOLDER, name) for file in _FILES}


def _copy(folder: Traversable, name: str, only: Collection[str]) -> dict[str, str]:
    """Return a folder's files, or some of them, with `name` in the place of the folder's own name.

    That is the name of the function and of its consumer group. Python files stay as they are.
    """
    found = [it for it in folder.iterdir() if it.is_file() and (not only or it.name in only)]
    its_name = folder.name.replace("_", "-")  # a function's name has no underscores
    # The specification first: the files are named to the user in this order.
    texts = {it.name: it.read_text(encoding="utf-8") for it in sorted(found, key=lambda it: it.name != _SPEC)}
    return {
        file: text
        if file.endswith(".py")
        else text.replace(f"examples/{folder.name}", ".").replace(its_name, name)
        for file, text in texts.items()
    }


def _write(folder: Path, files: Mapping[str, str]) -> None:
    write_for_others()  # the folder is the user's own work, not private state of ours
    try:
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise UsageError(f"{folder} is there already; choose another name or another folder") from None
    except OSError as error:
        raise UsageError(f"{folder} can't be made here: {error.strerror}") from None
