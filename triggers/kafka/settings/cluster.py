"""Where a cluster is and how to get in: what a trigger's attributes say of it, and an output's."""

from typing import Annotated

from pydantic import AfterValidator

from headrace.runtime.kafka.names import checked_address
from headrace.runtime.settings.declare import Settings, section, setting
from headrace.runtime.settings.types import Text, Texts
from headrace.triggers.kafka.settings.security import Pem, SaslSettings, TlsSettings


def _checked_addresses(brokers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(checked_address, brokers))


Addresses = Annotated[Texts, AfterValidator(_checked_addresses)]


class ClusterAttributes(Settings):
    """Of one cluster. `secret_path` stands before the secrets it explains."""

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
