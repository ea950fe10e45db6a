"""How a trigger's settings get into its brokers, and what messages call those settings."""

from headrace.runtime.kafka.access import AccessNames, BrokerAccess, SignIn, Tls
from headrace.triggers.kafka.settings.attributes import KafkaAttributes


def broker_access(settings: KafkaAttributes) -> BrokerAccess:
    """The same for all clients of the trigger."""
    sasl = settings.sasl
    names = AccessNames(
        sign_in="sasl.user, sasl.password and sasl.mechanism",
        mechanism=f"sasl.mechanism {sasl.mechanism}",
        authority="caCert",
        broker="broker",
        advice="",
    )
    sign_in = SignIn(sasl.user, sasl.password, sasl.mechanism) if sasl.enable else None
    return BrokerAccess(", ".join(settings.brokers), _tls(settings), sign_in, names)


def _tls(settings: KafkaAttributes) -> Tls | None:
    if not settings.uses_tls:
        return None
    return Tls(
        ca_pem=settings.ca_cert,
        key_pem=settings.access_key,
        certificate_pem=settings.access_certificate,
        minimum_version=settings.tls.minimum_version,
        insecure_skip_verify=settings.tls.insecure_skip_verify,
    )
