"""Conditions between the settings that are about TLS: certificates are looked into as the file is loaded."""

from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.kafka.access import Tls, TlsError
from headrace.runtime.settings.declare import Rule
from headrace.triggers.kafka.settings.attributes import KafkaAttributes

_PAIR = ("access_key", "access_certificate")


def _key_needs_certificate(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is required beside accessKey."""
    is_missing = bool(settings.access_key and not settings.access_certificate)
    return "is required beside accessKey" if is_missing else ""


def _certificate_needs_key(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is required beside accessCertificate."""
    is_missing = bool(settings.access_certificate and not settings.access_key)
    return "is required beside accessCertificate" if is_missing else ""


def _authority_is_one(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """must be certificates."""
    return _tls_problem(Tls(settings.ca_cert)) if settings.ca_cert else ""


def _pair_fits(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
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


def _spark_reads_pkcs8(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """with delivery ranges it must be in PKCS#8, which is all that Spark's Kafka client reads."""
    is_other = settings.access_key and "-----BEGIN PRIVATE KEY-----" not in settings.access_key
    return (
        "must be in PKCS#8 (BEGIN PRIVATE KEY) for Spark's Kafka client, which reads ranges:"
        " `openssl pkcs8 -topk8 -nocrypt` makes it so"
        if settings.delivery == "ranges" and is_other
        else ""
    )


def _tls_is_off(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """is noticed where neither tls.enable nor caCert turns TLS on."""
    is_unused = bool(settings.access_key) and not settings.uses_tls
    return "is unused while tls.enable is false and no caCert is given" if is_unused else ""


def _spark_verifies(settings: KafkaAttributes, _trigger: TriggerFields) -> str:
    """It can't be true with delivery ranges: Spark's Kafka client always verifies."""
    skips = settings.uses_tls and settings.tls.insecure_skip_verify
    is_impossible = settings.delivery == "ranges" and skips
    return (
        "must be false: Spark's Kafka client, which reads ranges, verifies; set caCert"
        if is_impossible
        else ""
    )


TLS_RULES = (
    Rule("access_certificate", _PAIR, _key_needs_certificate),
    Rule("access_key", _PAIR, _certificate_needs_key),
    Rule("ca_cert", ("ca_cert",), _authority_is_one),
    Rule("access_key", _PAIR, _pair_fits),
    Rule("access_key", ("delivery", "access_key"), _spark_reads_pkcs8),
    Rule("access_key", (*_PAIR, "tls.enable", "ca_cert"), _tls_is_off, is_error=False),
    Rule("tls.insecure_skip_verify", ("delivery", "tls.insecure_skip_verify", "ca_cert"), _spark_verifies),
)
