"""Settings of how to reach a cluster: brokers, TLS and SASL, for triggers and outputs."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator

from headrace.runtime.kafka.names import checked_address, checked_web_address
from headrace.runtime.settings.declare import Settings, section, setting
from headrace.runtime.settings.types import CHOICE, TEXT, Flag, Text, Texts

# Up to the next dashes, and no way back: text that begins many blocks and ends none is read once.
# Linear as it stands; possessive quantifiers are wrong before Python 3.11.5.
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([^-]*(?:-(?!----)[^-]*)*)-----END \1-----")


def unflatten_pem(text: str) -> str:
    """Return PEM text with its line breaks back, where they were flattened to `@` or to spaces.

    ValueError (without the text) where no BEGIN and END markers frame anything. Text between blocks is
    dropped, as PEM readers do.
    """
    if not text:
        return text
    blocks = [
        f"-----BEGIN {label}-----\n{_body_lines(body)}\n-----END {label}-----\n"
        for label, body in _BLOCK.findall(text.replace("@", "\n"))
    ]
    if not blocks:
        raise ValueError(
            "is neither PEM text (-----BEGIN ...-----) nor a file, by full path or in secretPath"
        )
    return "".join(blocks)


def _body_lines(body: str) -> str:
    if ":" not in body:
        return "\n".join(body.split())
    # Old encrypted keys have header lines with spaces in them; only real line breaks are kept.
    return body.strip()


def _web_address(text: str) -> str:
    return checked_web_address(text) if text else text


def _is_sent(handshake: object) -> str:
    """Notice a handshake that is turned off: Nuclio's client sends it, too, with any mechanism but PLAIN."""
    return "" if handshake is not False else "the Kafka client always sends its handshake before it signs in"


Pem = Annotated[str, AfterValidator(unflatten_pem), TEXT]
TlsVersion = Annotated[Literal["1.2", "1.3"], CHOICE]
SaslMechanism = Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], CHOICE]


class TlsSettings(Settings):
    """The section `tls`."""

    enable: Flag = setting(
        "enable",
        False,
        annotation="kafka-tls-enabled",
        effect="Where the broker's listener speaks TLS and this is false, connecting fails.",
    )
    insecure_skip_verify: Flag = setting(
        "insecureSkipVerify",
        False,
        annotation="kafka-tls-insecure-skip-verify",
        effect="true accepts any certificate: whoever answers can read and change everything.",
    )
    minimum_version: TlsVersion = setting(
        "minimumVersion",
        "1.2",
        annotation="kafka-tls-minimum-version",
        effect="1.3 refuses older brokers, 1.2 lets a broker choose the older protocol.",
    )


class OauthSettings(Settings):
    """The section `sasl.oauth`: the client-credentials flow."""

    client_id: Text = setting(
        "clientID",
        "",
        annotation="kafka-sasl-oauth-client-id",
        effect="Who asks for the token.",
    )
    client_secret: Text = setting(
        "clientSecret",
        "",
        annotation="kafka-sasl-oauth-client-secret",
        secret=True,
        effect="Proves who asks; a wrong one is refused by the token server.",
    )
    token_url: Annotated[Text, AfterValidator(_web_address)] = setting(
        "tokenURL",
        "",
        annotation="kafka-sasl-oauth-token-url",
        effect="Where tokens come from; unreachable means no connection.",
    )
    scopes: Texts = setting(
        "scopes",
        (),
        annotation="kafka-sasl-oauth-scopes",
        effect="What the token is asked for; too few and the broker refuses it.",
    )


class SaslSettings(Settings):
    """The section `sasl`."""

    enable: Flag = setting(
        "enable",
        False,
        annotation="kafka-sasl-enabled",
        effect="Where the broker asks for a sign-in and this is false, connecting fails.",
    )
    user: Text = setting(
        "user", "", annotation="kafka-sasl-user", effect="Who signs in, for PLAIN and SCRAM."
    )
    password: Text = setting(
        "password",
        "",
        annotation="kafka-sasl-password",
        secret=True,
        effect="The password of user; the broker refuses a wrong one.",
    )
    mechanism: SaslMechanism = setting(
        "mechanism",
        "PLAIN",
        annotation="kafka-sasl-mechanism",
        effect="Must be one that the broker offers; PLAIN without TLS shows the password.",
    )
    handshake: Flag = setting(
        "handshake",
        True,
        annotation="kafka-sasl-handshake",
        idle=_is_sent,
        effect="false would leave out Kafka's handshake, for proxies that speak bare SASL.",
    )
    oauth: OauthSettings = section("oauth", OauthSettings, effect="For OAUTHBEARER.")


def _checked_addresses(brokers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(checked_address, brokers))


Addresses = Annotated[Texts, AfterValidator(_checked_addresses)]


class ClusterAttributes(Settings):
    """Attributes of one cluster. `secret_path` stands before the secrets it explains."""

    secret_path: Text = setting(
        "secretPath",
        "",
        annotation="kafka-secret-path",
        effect="Where it names no folder, secret values are taken as written, not as file names.",
    )
    brokers: Addresses = setting(
        "brokers",
        required="a list of at least one host:port",
        example=["localhost:9092"],
        effect="With one broker only, nothing can be written while that one is down.",
    )
    ca_cert: Pem = setting(
        "caCert",
        "",
        annotation="kafka-ca-cert",
        secret=True,
        may_be_path=True,
        effect="Turns TLS on; a broker whose certificate another authority signed is refused.",
    )
    access_key: Pem = setting(
        "accessKey",
        "",
        annotation="kafka-access-key",
        secret=True,
        may_be_path=True,
        effect="The client's private key; it must belong to accessCertificate.",
    )
    access_certificate: Pem = setting(
        "accessCertificate",
        "",
        annotation="kafka-access-cert",
        secret=True,
        may_be_path=True,
        effect="The client's certificate; the broker refuses one that it doesn't trust.",
    )
    tls: TlsSettings = section("tls", TlsSettings, effect="Encryption.")
    sasl: SaslSettings = section("sasl", SaslSettings, effect="Signing in.")

    @property
    def uses_tls(self) -> bool:
        """Whether to connect with TLS: a caCert alone turns it on, as in Nuclio."""
        return self.tls.enable or bool(self.ca_cert)
