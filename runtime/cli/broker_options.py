"""The options of all commands that talk to a broker: where it is, and how to get in."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from headrace.runtime.kafka.access import PASSWORD, SaslMechanism, broker_access

_OPTIONS = (
    click.option(
        "--brokers",
        envvar="HEADRACE_BROKERS",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT,...",
        help="Where the brokers are.",
    ),
    click.option("--tls", is_flag=True, help="Speak TLS."),
    click.option(
        "--tls-ca",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Speak TLS, and trust the certificates in this PEM file.",
    ),
    click.option("--user", default="", help=f"Sign in (SASL), with the password in {PASSWORD}."),
    click.option(
        "--sasl-mechanism",
        type=click.Choice(get_args(SaslMechanism)),
        default="PLAIN",
        show_default=True,
        help="How to sign in.",
    ),
)


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options; it gets one argument for all of them, `brokers`: a BrokerAccess."""

    @functools.wraps(command)
    def with_access(
        brokers: str, *, tls: bool, tls_ca: Path | None, user: str, sasl_mechanism: SaslMechanism, **more: Any
    ) -> None:
        access = broker_access(brokers, tls=tls, ca_file=tls_ca, user=user, mechanism=sasl_mechanism)
        command(brokers=access, **more)

    for option in reversed(_OPTIONS):
        with_access = option(with_access)
    return with_access
