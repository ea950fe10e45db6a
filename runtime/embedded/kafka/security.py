"""The security of an embedded broker: listeners with SASL and TLS beside the plain one."""

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

KEYSTORE = "tls.p12"
KEYSTORE_PASSWORD = "headrace"  # noqa: S105 a PKCS12 store must have one; the file's mode protects it
CLIENTS_PEM = "clients.pem"
SERVER_PEM = "server.pem"

PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
    "SASL": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "SASL_TLS": "SASL_SSL",
    "MUTUAL_TLS": "SSL",
}
_SECURITY = "org.apache.kafka.common.security"
# The fewest that Kafka takes.
_SCRAM_ITERATIONS = 4096


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """The ways to sign in to a broker. Each adds a listener; `users` with `tls` one with both.

    `users` is name to password, for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. `takes_tokens` is OAUTHBEARER
    with unsigned tokens, for tests. `tls`: with a self-signed certificate, or with the key, in PKCS#8, and
    the certificates of `server_pem`. `client_ca_pem`: clients show certificates of this authority's.
    """

    users: Mapping[str, str] = field(default_factory=dict)
    takes_tokens: bool = False
    tls: bool = False
    client_ca_pem: str = ""
    server_pem: str = field(default="", repr=False)

    @property
    def listeners(self) -> list[str]:
        """The names of the listeners."""
        # SASL and TLS have listeners of their own, so that tests can try each by itself.
        sasl = bool(self.users) or self.takes_tokens
        is_added = {
            "SASL": sasl,
            "TLS": self.tls,
            "SASL_TLS": sasl and self.tls,
            "MUTUAL_TLS": bool(self.client_ca_pem),
        }
        return [name for name, is_one in is_added.items() if is_one]

    def settings(self) -> dict[str, str]:
        """Return the broker's properties for the listeners. Paths are relative to its folder."""
        settings: dict[str, str] = {}
        for name in self.listeners:
            prefix = f"listener.name.{name.lower()}"
            if PROTOCOLS[name].endswith("SSL"):
                settings |= _own_tls(f"{prefix}.ssl") if self.server_pem else _tls_settings(f"{prefix}.ssl")
            if PROTOCOLS[name].startswith("SASL"):
                settings |= self._sasl_settings(prefix)
            if name == "MUTUAL_TLS":
                settings |= _mutual_settings(f"{prefix}.ssl")
        return settings

    def _sasl_settings(self, prefix: str) -> dict[str, str]:
        # Passwords stand between quotes in Java's JAAS syntax.
        quoted = {name: re.sub(r'(["\\])', r"\\\1", password) for name, password in self.users.items()}
        plain = " ".join(f'user_{name}="{password}"' for name, password in quoted.items())
        modules = {
            "plain": f"plain.PlainLoginModule required {plain}",
            "scram-sha-256": "scram.ScramLoginModule required",
            "scram-sha-512": "scram.ScramLoginModule required",
        }
        if self.takes_tokens:
            modules["oauthbearer"] = "oauthbearer.OAuthBearerLoginModule required"
        settings = {
            f"{prefix}.{it}.sasl.jaas.config": f"{_SECURITY}.{module};" for it, module in modules.items()
        }
        return settings | {f"{prefix}.sasl.enabled.mechanisms": ",".join(modules).upper()}

    def scram_users(self) -> list[str]:
        """Return the SCRAM users for the format tool, salted here: everybody can read a command line."""
        return [
            _scram_user(name, password, bits) for name, password in self.users.items() for bits in (256, 512)
        ]


def _tls_settings(prefix: str) -> dict[str, str]:
    return {
        f"{prefix}.keystore.type": "PKCS12",
        f"{prefix}.keystore.location": KEYSTORE,
        f"{prefix}.keystore.password": KEYSTORE_PASSWORD,
    }


def _own_tls(prefix: str) -> dict[str, str]:
    return {f"{prefix}.keystore.type": "PEM", f"{prefix}.keystore.location": SERVER_PEM}


def _mutual_settings(prefix: str) -> dict[str, str]:
    return {
        f"{prefix}.client.auth": "required",
        f"{prefix}.truststore.type": "PEM",
        f"{prefix}.truststore.location": CLIENTS_PEM,
    }


def _scram_user(name: str, password: str, bits: int) -> str:
    salt = os.urandom(16)
    salted = hashlib.pbkdf2_hmac(f"sha{bits}", password.encode(), salt, _SCRAM_ITERATIONS)
    return (
        f"SCRAM-SHA-{bits}=[name={name},iterations={_SCRAM_ITERATIONS},"
        f'salt="{_base64(salt)}",saltedpassword="{_base64(salted)}"]'
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
