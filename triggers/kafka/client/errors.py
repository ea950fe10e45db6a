"""The client's errors, as one line that says what a user can change."""

from typing import Any

from aiokafka import errors
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from headrace.runtime.errors import BrokerError, RefusedSettingError
from headrace.runtime.kafka.groups import why_no_consumers
from headrace.runtime.kafka.refusals import refusal
from headrace.triggers.kafka.settings.model import KafkaSettings


def explain(error: BaseException, settings: KafkaSettings) -> BrokerError:
    """Return an error that says what the broker refused, and which setting to look at."""
    kind = RefusedSettingError if isinstance(error, InvalidSessionTimeoutError) else BrokerError
    return kind(refusal(error, settings.access) or _line(error, settings))


async def explained(error: BaseException, settings: KafkaSettings, admin: Any) -> BrokerError:
    """Return the same as `explain`, after asking the broker of what kind the group is."""
    is_of_kind = isinstance(_unwrapped(error), InconsistentGroupProtocolError)
    if is_of_kind and (why := await why_no_consumers(admin, settings.consumer_group)):
        return BrokerError(why)
    return explain(error, settings)


def _line(error: BaseException, settings: KafkaSettings) -> str:
    brokers = settings.access
    match _unwrapped(error):
        case InvalidSessionTimeoutError():
            return (
                f"{brokers} refuses sessionTimeout {settings.session_timeout_seconds:g} s: it has to lie "
                "between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        case InconsistentGroupProtocolError():
            return (
                f"group {settings.consumer_group} is used by members with another balanceStrategy than "
                f"{settings.balance_strategy}, or groupProtocol consumer: stop them first, or use theirs"
            )
        case GroupAuthorizationFailedError():
            return f"{brokers} does not let this user join group {settings.consumer_group}"
        case TransactionalIdAuthorizationFailed():
            return (
                f"{brokers} lets this user write no transactions: exactlyOnce needs the right to write to "
                f"transactional ids that begin with {settings.consumer_group}-"
            )
        case TopicAuthorizationFailedError():
            named = [str(it) for it in error.args if isinstance(it, str)]
            return f"{brokers} does not let this user read {', '.join(named) or settings.all_topics}"
    return f"{brokers} refused: {error!r}"


def _unwrapped(error: BaseException) -> BaseException:
    """Return the error itself: aiokafka makes some a KafkaError of their repr."""
    name, _, _ = str(error.args[0] if error.args else "").partition("(")
    kind = getattr(errors, name, None) if type(error) is KafkaError else None
    return kind() if isinstance(kind, type) and issubclass(kind, KafkaError) else error
