"""Access to brokers: addresses, TLS and sign-in as one value, from a command's options or from settings."""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

SaslMechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
TlsVersion: TypeAlias = Literal["1.2", "1.3"]
OAUTHBEARER = "OAUTHBEARER"
PASSWORD = "HEADRACE_PASSWORD"  # noqa: S105  # a variable's name


@dataclass(frozen=True, slots=True)
class AccessNames:
    """Names that messages use for the parts of an access, in the reader's own words: options, or settings."""

    sign_in: str
    """Settings to check when the sign-in is refused."""
    mechanism: str
    """The mechanism that the broker does not offer."""
    authority: str
    """The setting for certificates to trust."""
    certificate: str
    """The setting for the client's own certificate."""
    broker: str
    """The word for a broker, where none answers."""
    advice: str
    """Advice for that case."""
    tls: str
    """The setting that turns TLS on."""


OPTION_NAMES = AccessNames(
    sign_in=f"--user, {PASSWORD} and --sasl-mechanism",
    mechanism="this --sasl-mechanism, or no sign-in at all",
    authority="--tls-ca",
    certificate="--tls-cert",
    broker="Kafka broker",
    advice="start one with `headrace kafka up`, say where it is with --brokers or HEADRACE_BROKERS, "
    "or how to get in with --tls and --user",
    tls="--tls",
)


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS that trusts the certificates of a text, or those of the machine. Everything is PEM."""

    ca_pem: str = ""
    key_pem: str = field(default="", repr=False)
    certificate_pem: str = ""
    minimum_version: TlsVersion = "1.2"
    insecure_skip_verify: bool = False

    def context(self) -> ssl.SSLContext:
        """Return a context for clients. Raises TlsError where a certificate or key can't be used."""
        try:
            context = ssl.create_default_context(cadata=self.ca_pem or None)
        except (ssl.SSLError, ValueError, TypeError):  # the last of text beyond ASCII
            raise TlsError("authority", "holds no certificate") from None
        versions = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
        context.minimum_version = versions[self.minimum_version]
        if self.insecure_skip_verify:
            # Before the line below, which Python refuses while names are checked.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.key_pem and self.certificate_pem:
            with tempfile.TemporaryDirectory() as folder:  # the ssl module reads client pairs from files only
                pair = Path(folder) / "pair.pem"
                # Before it has any content: the umask may let others read new files.
                pair.touch(mode=0o600)
                pair.write_text(f"{self.key_pem}\n{self.certificate_pem}\n")
                _load_pair(context, pair)
        return context


TlsPart: TypeAlias = Literal["authority", "pair"]


class TlsError(ValueError):
    """Certificates that can't be used. The message says why, to follow the name of what holds them."""

    def __init__(self, part: TlsPart, why: str) -> None:
        super().__init__(why)
        self.part = part
        """The certificates that are trusted, or the client's own with its key."""


def _load_pair(context: ssl.SSLContext, pair: Path) -> None:
    asked: list[None] = []

    def no_password() -> str:
        asked.append(None)
        return ""

    try:
        context.load_cert_chain(pair, password=no_password)  # without one it asks on the terminal
    except (ssl.SSLError, ValueError) as error:
        if asked:
            raise TlsError("pair", "is encrypted; expected a key without a password") from None
        raise TlsError("pair", f"can't be used with its certificate ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "reason", "") or str(error)).lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class SignIn:
    """A SASL sign-in with user and password."""

    user: str
    password: str = field(repr=False)
    mechanism: str

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments for any of aiokafka's clients."""
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }


@dataclass(frozen=True, slots=True)
class OauthSignIn:
    """A SASL OAUTHBEARER sign-in, with tokens of the client-credentials flow."""

    client_id: str
    client_secret: str = field(repr=False)
    token_url: str
    scopes: tuple[str, ...] = ()

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments for any of aiokafka's clients; each fetches tokens of its own."""
        from headrace.runtime.kafka.oauth import ClientCredentials

        tokens = ClientCredentials(self.token_url, self.client_id, self.client_secret, self.scopes)
        return {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": tokens}


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """The brokers' addresses, and how to get in; without `tls` and `sign_in` in plain text.

    `addresses` is host:port,... as messages show it.
    """

    addresses: str
    tls: Tls | None = None
    sign_in: SignIn | OauthSignIn | None = None
    names: AccessNames = OPTION_NAMES

    def __str__(self) -> str:
        """Return the addresses."""
        return self.addresses

    @property
    def or_hidden(self) -> str:
        """The other reason why a topic may be missing: a broker that knows us may hide it from us."""
        is_known = self.sign_in is not None or (self.tls is not None and self.tls.key_pem)
        return ", or this user may not see it" if is_known else ""

    @property
    def security_protocol(self) -> str:
        """Kafka's word for it, the same for all its clients: PLAINTEXT, SSL, SASL_SSL ..."""
        return ("SASL_" if self.sign_in else "") + ("SSL" if self.tls else "PLAINTEXT")

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments for any of aiokafka's clients. Raises TlsError.

        All connections of this process are guarded from then on (guarded_connections.py).
        """
        from headrace.runtime.kafka.guarded_connections import guard_connections

        guard_connections()
        options: dict[str, Any] = {
            "bootstrap_servers": [address.strip() for address in self.addresses.split(",")],
            "security_protocol": self.security_protocol,
        }
        if self.tls is not None:
            options["ssl_context"] = self.tls.context()
        if self.sign_in is not None:
            options |= self.sign_in.client_options()
        return options
