"""`headrace schema`: pages and files that are made from declarations, for editors and for people."""

import json
from collections.abc import Mapping

import click

from headrace.runtime.cli.reference_pages import command_reference, metrics_reference
from headrace.runtime.config.example import kind_example, spark_example
from headrace.runtime.config.json_schema import function_schema
from headrace.runtime.config.reference import configuration_reference
from headrace.runtime.config.trigger_kinds import TriggerKind, find_kind, installed_kinds, why_not_found
from headrace.runtime.errors import UsageError


@click.command()
@click.option("--markdown", is_flag=True, help="The configuration reference instead.")
@click.option("--commands", is_flag=True, help="The command-line reference instead.")
@click.option("--metrics", is_flag=True, help="The reference of all metrics instead.")
@click.option(
    "--example", metavar="KIND", help="A function.yaml with all settings of such a trigger instead."
)
@click.option("--spark", is_flag=True, help="With --example: all settings of spec.spark, few of the trigger.")
@click.pass_context
def schema(  # noqa: PLR0913  # one argument per option
    context: click.Context, *, markdown: bool, commands: bool, metrics: bool, example: str | None, spark: bool
) -> None:
    """Print the JSON schema of function.yaml, with the trigger kinds that are installed here."""
    if markdown + commands + metrics + (example is not None) > 1:
        choices = "--markdown, --commands, --metrics and --example"
        raise UsageError(f"{choices} each ask for something else: give one of them")
    if spark and example is None:
        raise UsageError("--spark goes with --example KIND")
    kinds = installed_kinds()  # kinds of other distributions show up in all pages
    if example is not None:
        show = spark_example if spark else kind_example
        # A page has its own line end: `make generate` writes it into a file as it is.
        click.echo(show(_kind(example, kinds)), nl=False)
    elif commands:
        click.echo(command_reference(context.find_root()), nl=False)
    elif metrics:
        click.echo(metrics_reference(), nl=False)
    elif markdown:
        click.echo(configuration_reference(kinds), nl=False)
    else:
        click.echo(json.dumps(function_schema(kinds), indent=2, ensure_ascii=False))


def _kind(written: str, kinds: Mapping[str, TriggerKind]) -> TriggerKind:
    if (kind := find_kind(written, kinds)) is None:
        raise UsageError(f"--example {why_not_found(written, kinds)}")
    return kind
