"""Options of all commands that talk to a broker: where it is, how to get in, and what to print."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import click

from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.access import (
    OAUTHBEARER,
    PASSWORD,
    BrokerAccess,
    OauthSignIn,
    SaslMechanism,
    SignIn,
    Tls,
    TlsError,
)
from headrace.runtime.kafka.names import (
    BROKERS_OPTION,
    BROKERS_VARIABLE,
    DEFAULT_PORT,
    checked_addresses,
    checked_web_address,
)

_OPTIONS = (
    click.option(
        BROKERS_OPTION,
        envvar=BROKERS_VARIABLE,
        default=f"127.0.0.1:{DEFAULT_PORT}",
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
    click.option(
        "--tls-cert",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Speak TLS, and show the certificate in this PEM file.",
    ),
    click.option(
        "--tls-key",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Its key, where that is in a file of its own.",
    ),
    click.option("--user", default="", help=f"Sign in (SASL), with the password in {PASSWORD}."),
    click.option(
        "--sasl-mechanism",
        type=click.Choice([*get_args(SaslMechanism), OAUTHBEARER]),
        default="PLAIN",
        show_default=True,
        help=f"How to sign in. With {OAUTHBEARER} the user is a client's id.",
    ),
    click.option("--token-url", default="", help=f"Where tokens for {OAUTHBEARER} come from."),
    click.option("--token-scope", "token_scopes", multiple=True, help="What such a token is asked for."),
)


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options; it gets one argument for all of them, `brokers`: a BrokerAccess."""

    @functools.wraps(command)
    def with_access(brokers: str, **given: Any) -> None:
        tls, sign_in = _Tls(**_taken(_Tls, given)), _SignIn(**_taken(_SignIn, given))
        command(brokers=BrokerAccess(_addresses(brokers), tls.checked(), sign_in.checked()), **given)

    for option in reversed(_OPTIONS):  # decorators apply from the last to the first
        with_access = option(with_access)
    return with_access


def _addresses(brokers: str) -> str:
    try:
        return ",".join(checked_addresses(brokers))
    except ValueError as error:
        raise UsageError(f"{BROKERS_OPTION} {error}") from None


def _taken(options: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    # Popped, so that what is left are the command's own options.
    return {field.name: given.pop(field.name) for field in fields(options)}


@dataclass(frozen=True, slots=True)
class _Tls:
    """The options about TLS."""

    tls: bool
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None

    def checked(self) -> Tls | None:
        """Return the settings for TLS. Raises UsageError for a file of no use: before anybody is asked."""
        if self.tls_key is not None and self.tls_cert is None:
            raise UsageError("--tls-key needs --tls-cert, the certificate that it belongs to")
        if not (self.tls or self.tls_ca or self.tls_cert):
            return None
        # One PEM file may hold both the certificate and its key.
        certificate = _read("--tls-cert", self.tls_cert)
        key = _read("--tls-key", self.tls_key) if self.tls_key else certificate
        tls = Tls(_read("--tls-ca", self.tls_ca), key, certificate)
        try:
            tls.context()  # made only to see whether the files are of use
        except TlsError as error:
            given = f"--tls-ca {self.tls_ca}"
            if error.part == "pair":  # certificate and key, which have to fit each other
                given = f"--tls-key {self.tls_key}" if self.tls_key else f"--tls-cert {self.tls_cert}"
            raise UsageError(f"{given} {error}; expected a file in PEM") from None
        return tls


@dataclass(frozen=True, slots=True)
class _SignIn:
    """The options about signing in."""

    user: str
    sasl_mechanism: str
    token_url: str
    token_scopes: tuple[str, ...]

    def checked(self) -> SignIn | OauthSignIn | None:
        """Return the sign-in. Raises UsageError where something is missing."""
        if not self.user:
            return None
        # Never an option: everybody on the machine can read command lines.
        password = os.environ.get(PASSWORD)
        if not password:
            raise UsageError(f"--user {self.user} signs in with a password: put it into {PASSWORD}")
        if self.sasl_mechanism != OAUTHBEARER:
            return SignIn(self.user, password, self.sasl_mechanism)
        if not self.token_url:
            raise UsageError(f"--sasl-mechanism {OAUTHBEARER} needs --token-url, where tokens come from")
        try:
            checked_web_address(self.token_url)
        except ValueError as error:
            raise UsageError(f"--token-url {error}") from None
        return OauthSignIn(self.user, password, self.token_url, self.token_scopes)


def _read(option: str, path: Path | None) -> str:
    try:
        return path.read_text() if path is not None else ""
    except OSError as error:
        raise UsageError(f"{option} {path} can't be read: {error.strerror}") from None
    # No text, so no PEM: perhaps DER, its binary form.
    except ValueError:
        raise UsageError(f"{option} {path} holds no certificate; expected a file in PEM") from None
