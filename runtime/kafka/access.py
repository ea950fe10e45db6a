"""Where brokers are and how to get in, for commands that talk to any broker."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from headrace.runtime.errors import UsageError

SaslMechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "HEADRACE_PASSWORD"  # noqa: S105  # a variable's name


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """`addresses` is host:port,... and what messages show; `security` are aiokafka's arguments."""

    addresses: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """The addresses."""
        return self.addresses

    @property
    def options(self) -> dict[str, Any]:
        """For any of aiokafka's clients."""
        return {"bootstrap_servers": self.addresses.split(","), **self.security}


def broker_access(
    addresses: str, *, tls: bool, ca_file: Path | None, user: str, mechanism: SaslMechanism
) -> BrokerAccess:
    """TLS with the certificates of a file or the machine, SASL where there is a user. Raises UsageError."""
    uses_tls = tls or ca_file is not None
    protocol = ("SASL_" if user else "") + ("SSL" if uses_tls else "PLAINTEXT")
    security: dict[str, Any] = {"security_protocol": protocol}
    if uses_tls:
        security["ssl_context"] = _tls_context(ca_file)
    if user:
        security |= {"sasl_mechanism": mechanism, "sasl_plain_username": user}
        security["sasl_plain_password"] = _password(user)
    return BrokerAccess(addresses, security)


def _password(user: str) -> str:
    if password := os.environ.get(PASSWORD):
        return password
    raise UsageError(f"--user {user} signs in with a password: put it into {PASSWORD}")


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise UsageError(f"--tls-ca {ca_file} holds no certificate; expected a file in PEM") from None
    except OSError as error:
        raise UsageError(f"--tls-ca {ca_file} can't be read: {error.strerror}") from None
