"""Reference pages of commands and metrics, from their declarations.

docs/reference/command-line.md is made from the commands as click has them, docs/operate/metrics.md from the
declared metrics.
"""

import inspect
from collections.abc import Iterator

import click

from headrace.runtime.config.reference import table
from headrace.runtime.metrics.declaration import LABELS, TRIGGER_LABELS, Metric, declared_in
from headrace.runtime.metrics.runtime_metrics import METRICS, TriggerMetrics

_COMMANDS_HEAD = """\
# Command line

Every command and its options. `headrace schema --commands` generates this page from the commands themselves;
`headrace COMMAND --help` prints the same in a terminal.
"""
_COLUMNS = ("option", "default", "effect")


def command_reference(root: click.Context) -> str:
    """Return the page in Markdown: a section for each command below `root`, hidden ones left out."""
    return "\n".join([_COMMANDS_HEAD, *_section(root)])


def _section(context: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of the commands below it."""
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## `{context.command_path}`", "", f"`{context.command_path} {usage}`", "")
    yield from (_help(command), "")
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if options:
        yield from (*table(_COLUMNS, [_option_row(option, context) for option in options]), "")
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        below = command.get_command(context, name) if isinstance(command, click.Group) else None
        if below is not None and not below.hidden:
            yield from _section(click.Context(below, info_name=name, parent=context))


def _help(command: click.Command) -> str:
    """Return the command's help without click's mark for lines that it shall not wrap."""
    return inspect.cleandoc(command.help or "").replace("\b\n", "")


def _option_row(option: click.Option, context: click.Context) -> tuple[str, ...]:
    # click calls a number with bounds INTEGER RANGE or FLOAT RANGE.
    value = "" if option.is_flag else f" {option.make_metavar(context).removesuffix(' RANGE')}"
    names = ", ".join(f"`{name}{value}`" for name in option.opts)
    return names, _default(option, context), _effect(option)


def _default(option: click.Option, context: click.Context) -> str:
    """Return the value where the option isn't given; "" for flags and where there is none."""
    default = option.get_default(context)
    if option.required:
        return "required"
    is_shown = isinstance(default, str | int | float) and not option.is_flag and default != ""
    return f"`{default}`" if is_shown else ""


def _effect(option: click.Option) -> str:
    variable = f"or the variable `{option.envvar}`" if option.envvar else ""
    repeated = "may be given several times" if option.multiple else ""
    more = ", ".join(filter(None, (variable, repeated)))
    return (option.help or "") + (f" ({more})" if more else "")


_METRICS_HEAD = """\
# Metrics

What `/metrics` of the admin server says, in Prometheus' text format. `headrace schema --metrics` generates
this page from the declarations that the samples are made of.

- Counters begin at 0 when their replica starts; gauges are read when somebody asks.
- With `--replicas N` the one admin server has the samples of all replicas, told apart by the label `replica`.
- A partition's gauges are those of the replica that has it; they go when it goes.
- `nuclio_processor_handled_events_total` counts attempts: a record that comes again counts twice. Kills by
  the memory limit are restarts with that reason.
- `process_*` (CPU, memory, descriptors, start) are of the replica's own process, without its workers.
- Nuclio's label `instance` is left out: Prometheus gives that name to what it scrapes.
- Alerts and a dashboard: [alerts](alerts.md). Handlers may have [metrics of their own](../guide/metrics.md).
"""


def metrics_reference() -> str:
    """Return the page in Markdown: a table of the metrics, and one of the labels."""
    everywhere = ", ".join(f"`{label}`" for label in TRIGGER_LABELS)
    lines = [
        "",
        *table(("name", "type", "unit", "labels besides", "what it says"), map(_metric_row, METRICS)),
        "",
        "## Labels",
        "",
        f"Every metric but `headrace_build_info` and `process_*`, which have `replica`, has {everywhere}.",
        "",
        *table(("label", "value"), ((f"`{label}`", meaning) for label, meaning in LABELS.items())),
    ]
    return _METRICS_HEAD + "\n".join(lines) + "\n"


def _metric_row(metric: Metric) -> tuple[str, ...]:
    results = [values[0] for _, other, values in declared_in(TriggerMetrics) if other is metric and values]
    result_values = f": {' or '.join(f'`{result}`' for result in results)}" if results else ""
    labels = ", ".join(f"`{label}`" for label in metric.labels if label not in TRIGGER_LABELS)
    return (f"`{metric.shown_name}`", metric.kind, metric.unit, labels + result_values, f"{metric.about}.")
