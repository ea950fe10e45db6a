"""Command line of `headrace run`: each option is declared here, and nowhere else."""

import json
import os
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import get_args

import click
from click.core import ParameterSource

from headrace.runtime.config.trigger import CommandSettings
from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.names import BROKERS_OPTION, BROKERS_VARIABLE, checked_addresses
from headrace.runtime.log import LogFormat
from headrace.runtime.processor.option_fields import Reach, argument, option
from headrace.runtime.settings.reader import Origin, OverrideValue
from headrace.runtime.users import OPTION as WORKER_USER_OPTION
from headrace.runtime.v3io.addresses import V3IO_OPTION, V3IO_OVERRIDE_VARIABLE, checked_web_api
from headrace.runtime.web.addresses import TcpAddress

_SETS = "HEADRACE_REPLICA_SETS"


def _addresses(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return checked_addresses(",".join(texts)) if texts else ()
    except ValueError as error:
        raise UsageError(f"--brokers {error}") from None


def _web_api(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    try:
        # A tuple as the brokers are, of one: of several the last counts.
        return tuple(checked_web_api(text) for text in texts[-1:])
    except ValueError as error:
        raise UsageError(f"{V3IO_OPTION} {error}") from None


def _admin_host(_: click.Context, __: click.Parameter, host: str) -> str:
    if not host.strip():
        raise UsageError("--admin-host is empty, which would be everywhere: 127.0.0.1 is this machine alone")
    return host


@dataclass(frozen=True, slots=True)
class _Service:
    """Options about one service: where it is, or that it be embedded."""

    option: str
    parameter: str
    name: str
    embedded: object
    """Stands in for its address, in the type of the setting, until it is started and has one."""
    as_written: Callable[[Sequence[str]], object]
    """Turns its addresses into what a file would hold."""

    def override(self, context: click.Context) -> Iterator[tuple[str, OverrideValue]]:
        """Yield the option and what it gives instead of the file, if anything.

        A variable gives way to an embedded service; an option and an embedded service exclude each other.
        """
        given = context.params[self.parameter]
        # A variable may be set for all commands of a shell, and must not bar an embedded service.
        is_from_environment = context.get_parameter_source(self.parameter) is ParameterSource.ENVIRONMENT
        if context.params[f"embedded_{self.name}"]:
            if given and not is_from_environment:
                raise click.UsageError(f"--embedded-{self.name} and {self.option} exclude each other")
            yield self.option, OverrideValue(self.embedded, "command line")
        elif given:
            origin: Origin = "environment" if is_from_environment else "command line"
            yield self.option, OverrideValue(self.as_written(given), origin)


_SERVICES = (
    _Service(BROKERS_OPTION, "brokers", "kafka", ["embedded-kafka"], list),
    _Service(V3IO_OPTION, "v3io", "v3io", "http://embedded-v3io", itemgetter(0)),
)


def command_settings(context: click.Context) -> CommandSettings:
    """Return the settings of a command that has the options of all services, and only_kafka.

    Raises UsageError.
    """
    values = dict(pair for service in _SERVICES for pair in service.override(context))
    return CommandSettings(values, "kafka-cluster" if context.params["only_kafka"] else "")


def command_settings_for_one_record(brokers: Sequence[str], *, reads_kafka: bool) -> CommandSettings:
    """Return the settings of a command that runs no trigger, and reads a record of Kafka at most.

    No service needs an address then, but for the brokers: these, or the file's own.
    """
    values = {service.option: OverrideValue(service.embedded, "command line") for service in _SERVICES}
    if reads_kafka:
        del values[BROKERS_OPTION]
    if brokers:
        values[BROKERS_OPTION] = OverrideValue(list(brokers), "command line")
    return CommandSettings(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options that `headrace run` was given."""

    paths: tuple[Path, ...] = field(metadata=argument(metavar="PATH...", type=click.Path(path_type=Path)))
    brokers: tuple[str, ...] = field(
        default=(),
        metadata=option(
            "Instead of the function's own brokers.",
            flag=BROKERS_OPTION,
            metavar="HOST:PORT",
            callback=_addresses,
            envvar=BROKERS_VARIABLE,
            show_envvar=True,
        ),
    )
    set_texts: tuple[str, ...] = field(
        default=(),
        metadata=option(
            "Instead of what the file says, such as triggers.orders.numWorkers=4: a path below spec, "
            "and YAML.",
            flag="--set",
            metavar="KEY=VALUE",
            reach=Reach.PARENT,  # values may be secrets, and everybody can read command lines
        ),
    )
    pass_env: tuple[str, ...] = field(
        default=(),
        metadata=option(
            "A variable of this environment that handlers find in theirs, besides spec.env; NAME* for all "
            "that begin so.",
            metavar="NAME",
            envvar="HEADRACE_PASS_ENV",
            show_envvar=True,
        ),
    )
    worker_user: str | None = field(
        default=None,
        metadata=option(
            "Run handlers, and an embedded Spark, as this user of the machine. Only root can.",
            flag=WORKER_USER_OPTION,
            metavar="NAME",
            envvar="HEADRACE_WORKER_USER",
            show_envvar=True,
        ),
    )
    embedded_kafka: bool = field(
        default=False,  # replicas are told where it is by `brokers`
        metadata=option("Start a Kafka here, with the triggers' topics.", reach=Reach.PARENT),
    )
    v3io: tuple[str, ...] = field(
        default=(),
        metadata=option(
            "Instead of the web API that v3io triggers name.",
            flag=V3IO_OPTION,
            metavar="URL",
            callback=_web_api,
            envvar=V3IO_OVERRIDE_VARIABLE,
            show_envvar=True,
        ),
    )
    embedded_v3io: bool = field(
        default=False,  # replicas are told where it is by `v3io`
        metadata=option("Start a v3io server here, with the triggers' streams.", reach=Reach.PARENT),
    )
    only_kafka: bool = field(
        default=False,
        metadata=option("Leave out the triggers of other kinds."),
    )
    replicas: int = field(
        default=1,
        metadata=option(
            "How many processes share the partitions on this machine.",
            reach=Reach.PARENT,
            type=click.IntRange(1, 64),
        ),
    )
    reload: bool = field(
        default=False,
        metadata=option("Replace workers, between records, when the function's code changes."),
    )
    debug: bool = field(
        default=False,
        metadata=option(
            "One worker for each trigger, with this terminal and no timeout: breakpoint() works in handlers.",
            reach=Reach.PARENT,
        ),
    )
    admin_host: str = field(
        default="127.0.0.1",
        metadata=option("Of /live, /ready and the rest.", reach=Reach.PARENT, callback=_admin_host),
    )
    admin_port: int = field(
        default=8081, metadata=option("0: a free one.", reach=Reach.PARENT, type=click.IntRange(0, 65535))
    )
    admin_socket: Path | None = field(
        default=None, metadata=option(reach=Reach.REPLICA, type=click.Path(path_type=Path))
    )
    replica_name: str = field(default="", metadata=option(reach=Reach.REPLICA))
    replica_index: int | None = field(default=None, metadata=option(reach=Reach.REPLICA, type=int))
    replica_count: int = field(default=1, metadata=option(reach=Reach.REPLICA, type=int))
    parent_fd: int | None = field(default=None, metadata=option(reach=Reach.REPLICA, type=int))
    log_level: str = field(
        default="info",
        metadata=option(
            "trace: debug, and all that the Kafka client and asyncio say.",
            type=click.Choice(["trace", "debug", "info", "warning", "error"]),
        ),
    )
    log_format: LogFormat = field(
        default="console",
        metadata=option(
            "console: for people; json: one object a line, for log collectors.",
            type=click.Choice(get_args(LogFormat)),
        ),
    )

    def environment(self) -> dict[str, str]:
        """Return the variables by which `of_parent` gets what a command line would show to everybody."""
        return {_SETS: json.dumps(self.set_texts)}

    def of_parent(self, env: MutableMapping[str, str] = os.environ) -> "RunOptions":
        """Return the options with those that a parent passes by the environment.

        They are taken out of it: handlers need not see them.
        """
        # Popped in every process, whoever set it; heeded in replicas alone.
        given = env.pop(_SETS, "[]")
        return replace(self, set_texts=tuple(json.loads(given))) if self.replica_name else self

    @property
    def admin(self) -> TcpAddress | Path:
        """Address, or Unix socket, where the admin server listens."""
        return self.admin_socket or TcpAddress(self.admin_host, self.admin_port)
