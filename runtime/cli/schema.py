"""`headrace schema`: what a function.yaml may say, for editors and for people."""

import json

import click

from headrace.runtime.config.json_schema import function_schema
from headrace.runtime.config.reference import configuration_reference
from headrace.runtime.config.trigger_kinds import installed_kinds


@click.command()
@click.option("--markdown", is_flag=True, help="The configuration reference instead.")
def schema(*, markdown: bool) -> None:
    """Print the JSON schema of function.yaml, with the trigger kinds that are installed here."""
    kinds = installed_kinds()
    if markdown:
        click.echo(configuration_reference(kinds), nl=False)
    else:
        click.echo(json.dumps(function_schema(kinds), indent=2, ensure_ascii=False))
