"""The options of all commands that talk to a broker: where it is, how to get in, and what to print."""

import functools
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.access import PASSWORD, BrokerAccess, SaslMechanism, SignIn, Tls
from headrace.runtime.kafka.addresses import BROKERS_OPTION, BROKERS_VARIABLE

_OPTIONS = (
    click.option(
        BROKERS_OPTION,
        envvar=BROKERS_VARIABLE,
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

as_json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options; it gets one argument for all of them, `brokers`: a BrokerAccess."""

    @functools.wraps(command)
    def with_access(
        brokers: str, *, tls: bool, tls_ca: Path | None, user: str, sasl_mechanism: SaslMechanism, **more: Any
    ) -> None:
        trust = _checked(Tls(ca_file=tls_ca)) if tls or tls_ca is not None else None
        sign_in = SignIn(user, _password(user), sasl_mechanism) if user else None
        command(brokers=BrokerAccess(brokers, trust, sign_in), **more)

    for option in reversed(_OPTIONS):
        with_access = option(with_access)
    return with_access


def _password(user: str) -> str:
    if password := os.environ.get(PASSWORD):
        return password
    raise UsageError(f"--user {user} signs in with a password: put it into {PASSWORD}")


def _checked(tls: Tls) -> Tls:
    """Raises UsageError where its file is of no use: before anybody is asked."""
    try:
        tls.context()
    except ssl.SSLError:
        raise UsageError(f"--tls-ca {tls.ca_file} holds no certificate; expected a file in PEM") from None
    except OSError as error:
        raise UsageError(f"--tls-ca {tls.ca_file} can't be read: {error.strerror}") from None
    return tls
