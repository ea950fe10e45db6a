"""The client's errors, as one line that says what a user can change."""

import ssl

from aiokafka.errors import (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from headrace.runtime.errors import BrokerError, RefusedSettingError
from headrace.triggers.kafka.settings.model import KafkaSettings

# Waiting does not mend these.
REFUSALS = (
    AuthenticationFailedError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    IllegalSaslStateError,
    ssl.SSLCertVerificationError,
)


def explain(error: BaseException, settings: KafkaSettings) -> BrokerError:
    """What the broker refused, and the setting to look at."""
    kind = RefusedSettingError if isinstance(error, InvalidSessionTimeoutError) else BrokerError
    return kind(_line(error, settings))


def _line(  # noqa: PLR0911  # one line per error
    error: BaseException, settings: KafkaSettings
) -> str:
    brokers = ", ".join(settings.brokers)
    match error:
        case AuthenticationFailedError() | SaslAuthenticationFailed():
            return f"{brokers} refuses the sign-in: check sasl.user, sasl.password and sasl.mechanism"
        case UnsupportedSaslMechanismError() | IllegalSaslStateError():
            return f"{brokers} does not offer sasl.mechanism {settings.sasl.mechanism}"
        case ssl.SSLCertVerificationError():
            return f"the certificate of {brokers} is not trusted ({error.verify_message}): check caCert"
        case InvalidSessionTimeoutError():
            return (
                f"{brokers} refuses sessionTimeout {settings.session_timeout_seconds:g} s: it has to lie "
                "between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case InconsistentGroupProtocolError():
            return (
                f"group {settings.consumer_group} is used by members with another balanceStrategy than "
                f"{settings.balance_strategy}: stop them first, or use theirs"
            )
        case GroupAuthorizationFailedError():
            return f"{brokers} does not let this user join group {settings.consumer_group}"
        case TopicAuthorizationFailedError():
            return f"{brokers} does not let this user read {', '.join(settings.topics)}"
    return f"{brokers} refused: {error!r}"
