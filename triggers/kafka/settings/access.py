"""How settings get into their brokers, and what messages call those settings."""

from headrace.runtime.kafka.access import OAUTHBEARER, AccessNames, BrokerAccess, OauthSignIn, SignIn, Tls
from headrace.triggers.kafka.settings.cluster import ClusterAttributes
from headrace.triggers.kafka.settings.security import SaslSettings


def broker_access(settings: ClusterAttributes) -> BrokerAccess:
    """The same for all clients of a trigger, or an output."""
    sasl = settings.sasl
    is_oauth = sasl.mechanism == OAUTHBEARER
    names = AccessNames(
        sign_in="sasl.oauth" if is_oauth else "sasl.user, sasl.password and sasl.mechanism",
        mechanism=f"sasl.mechanism {sasl.mechanism}",
        authority="caCert",
        certificate="accessCertificate",
        broker="broker",
        advice="",
        tls="tls.enable",
    )
    return BrokerAccess(", ".join(settings.brokers), _tls(settings), _sign_in(sasl), names)


def _sign_in(sasl: SaslSettings) -> SignIn | OauthSignIn | None:
    if not sasl.enable:
        return None
    if sasl.mechanism != OAUTHBEARER:
        return SignIn(sasl.user, sasl.password, sasl.mechanism)
    oauth = sasl.oauth
    return OauthSignIn(oauth.client_id, oauth.client_secret, oauth.token_url, oauth.scopes)


def _tls(settings: ClusterAttributes) -> Tls | None:
    if not settings.uses_tls:
        return None
    return Tls(
        ca_pem=settings.ca_cert,
        key_pem=settings.access_key,
        certificate_pem=settings.access_certificate,
        minimum_version=settings.tls.minimum_version,
        insecure_skip_verify=settings.tls.insecure_skip_verify,
    )
