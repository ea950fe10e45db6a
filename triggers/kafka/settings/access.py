"""Access to brokers made from settings, and the rules for it: certificates are looked into on loading."""

import os

from headrace.runtime.kafka.access import (
    OAUTHBEARER,
    AccessNames,
    BrokerAccess,
    OauthSignIn,
    SignIn,
    Tls,
    TlsError,
)
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.connection import ClusterAttributes, SaslSettings


def broker_access(settings: ClusterAttributes) -> BrokerAccess:
    """Return the access for all clients of a trigger, or an output."""
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


_PAIR = ("access_key", "access_certificate")


def _key_needs_certificate(settings: ClusterAttributes, _trigger: object) -> str:
    """is required beside accessKey."""
    is_missing = bool(settings.access_key and not settings.access_certificate)
    return "is required beside accessKey" if is_missing else ""


def _certificate_needs_key(settings: ClusterAttributes, _trigger: object) -> str:
    """is required beside accessCertificate."""
    is_missing = bool(settings.access_certificate and not settings.access_key)
    return "is required beside accessCertificate" if is_missing else ""


def _authority_is_one(settings: ClusterAttributes, _trigger: object) -> str:
    """must be certificates."""
    return _tls_problem(Tls(settings.ca_cert)) if settings.ca_cert else ""


def _pair_fits(settings: ClusterAttributes, _trigger: object) -> str:
    """must be the key of accessCertificate, not encrypted."""
    pair = Tls(key_pem=settings.access_key, certificate_pem=settings.access_certificate)
    return _tls_problem(pair) if settings.access_key and settings.access_certificate else ""


def _tls_problem(tls: Tls) -> str:
    # Only of what is given: a context without it would read all that this machine trusts.
    try:
        tls.context()
    except TlsError as error:
        return str(error)
    return ""


def _tls_is_off(settings: ClusterAttributes, _trigger: object) -> str:
    """is noticed where neither tls.enable nor caCert turns TLS on."""
    is_unused = bool(settings.access_key) and not settings.uses_tls
    return "is unused while tls.enable is false and no caCert is given" if is_unused else ""


def _sasl_needs(field: str) -> Rule:
    def check(settings: ClusterAttributes, _trigger: object) -> str:
        """is required where sasl.enable is true, except with OAUTHBEARER."""
        sasl = settings.sasl
        is_missing = sasl.enable and sasl.mechanism != OAUTHBEARER and not getattr(sasl, field)
        return f"is required: sasl.enable is true and {sasl.mechanism} needs it" if is_missing else ""

    return Rule(f"sasl.{field}", ("sasl.enable", "sasl.mechanism", f"sasl.{field}"), check)


def _oauth_needs(field: str) -> Rule:
    def check(settings: ClusterAttributes, _trigger: object) -> str:
        """is required where sasl.enable is true and sasl.mechanism is OAUTHBEARER."""
        sasl = settings.sasl
        is_missing = sasl.enable and sasl.mechanism == OAUTHBEARER and not getattr(sasl.oauth, field)
        return f"is required: sasl.enable is true and {OAUTHBEARER} needs it" if is_missing else ""

    return Rule(f"sasl.oauth.{field}", ("sasl.enable", "sasl.mechanism", f"sasl.oauth.{field}"), check)


def _oauth_is_off(settings: ClusterAttributes, _trigger: object) -> str:
    """is noticed where sasl.mechanism is not OAUTHBEARER, or sasl.enable false."""
    sasl = settings.sasl
    if not sasl.oauth.client_id or (sasl.enable and sasl.mechanism == OAUTHBEARER):
        return ""
    return f"is unused: that takes sasl.enable true and sasl.mechanism {OAUTHBEARER}"


def _sasl_is_off(settings: ClusterAttributes, _trigger: object) -> str:
    """false with a user or a password is noticed."""
    is_unused = not settings.sasl.enable and bool(settings.sasl.user or settings.sasl.password)
    return "a user or a password is given, and false keeps them unused" if is_unused else ""


def _secret_path_is_folder(settings: ClusterAttributes, _trigger: object) -> str:
    """a folder that is not there is noticed."""
    # Absolute by now, or empty: the reader has joined it to the function's folder.
    # A notice only: the values may be meant as they are written.
    if not settings.secret_path or os.path.isdir(settings.secret_path):  # noqa: PTH112  # is_dir may raise before 3.14
        return ""
    return "names no folder here; the secret values are used as they are written"


ACCESS_RULES = (
    _sasl_needs("user"),
    _sasl_needs("password"),
    _oauth_needs("client_id"),
    _oauth_needs("client_secret"),
    _oauth_needs("token_url"),
    Rule(
        "sasl.oauth.client_id",
        ("sasl.oauth.client_id", "sasl.enable", "sasl.mechanism"),
        _oauth_is_off,
        is_error=False,
    ),
    Rule("sasl.enable", ("sasl.enable",), _sasl_is_off, is_error=False),
    Rule("access_certificate", _PAIR, _key_needs_certificate),
    Rule("access_key", _PAIR, _certificate_needs_key),
    Rule("ca_cert", ("ca_cert",), _authority_is_one),
    Rule("access_key", _PAIR, _pair_fits),
    Rule("access_key", (*_PAIR, "tls.enable", "ca_cert"), _tls_is_off, is_error=False),
    Rule("secret_path", ("secret_path",), _secret_path_is_folder, is_error=False),
)
