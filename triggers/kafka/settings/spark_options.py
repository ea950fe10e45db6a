"""Options with which Spark's Kafka source reaches the brokers that a trigger reaches."""

from headrace.triggers.kafka.settings.access import broker_access
from headrace.triggers.kafka.settings.attributes import KafkaAttributes

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def spark_source_options(settings: KafkaAttributes) -> dict[str, str]:
    """Return options of `spark.read.format("kafka")`: brokers, isolation, TLS and SASL.

    Certificates are given as text.
    """
    options = {
        "bootstrap.servers": ",".join(settings.brokers),
        "isolation.level": settings.isolation_level,
        "security.protocol": broker_access(settings).security_protocol,
        **(_tls(settings) if settings.uses_tls else {}),
        **(_sasl(settings) if settings.sasl.enable else {}),
    }
    return {f"kafka.{name}": value for name, value in options.items()}


def _tls(settings: KafkaAttributes) -> dict[str, str]:
    protocols = {"1.2": "TLSv1.2,TLSv1.3", "1.3": "TLSv1.3"}[settings.tls.minimum_version]
    options = {"ssl.enabled.protocols": protocols}
    if settings.ca_cert:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": settings.ca_cert}
    if settings.access_key:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": settings.access_key,
            "ssl.keystore.certificate.chain": settings.access_certificate,
        }
    return options


def _sasl(settings: KafkaAttributes) -> dict[str, str]:
    module = _LOGIN_MODULES[settings.sasl.mechanism]
    user, password = _quoted(settings.sasl.user), _quoted(settings.sasl.password)
    return {
        "sasl.mechanism": settings.sasl.mechanism,
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
