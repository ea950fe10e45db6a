"""Refusals of brokers, each as one line that says what to change."""

import ssl

from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import ConnectErrors
from headrace.runtime.kafka.names import DEFAULT_PORT
from headrace.runtime.kafka.not_a_broker import NotABrokerError, TlsHint
from headrace.runtime.kafka.oauth import TokenRefusedError

_BAD_SIGN_IN = (AuthenticationFailedError, SaslAuthenticationFailed)
_NO_SUCH_SIGN_IN = (UnsupportedSaslMechanismError, IllegalSaslStateError)
REFUSALS = (*_BAD_SIGN_IN, *_NO_SUCH_SIGN_IN, ssl.SSLCertVerificationError)
"""Waiting does not mend these."""


def refusal(error: BaseException | None, brokers: BrokerAccess) -> str | None:
    """Return the line for one of REFUSALS, or for what is no broker; None for any other error."""
    if isinstance(error, TokenRefusedError):
        return str(error.args[0])
    if isinstance(error, _BAD_SIGN_IN):
        return f"{brokers} refuses the sign-in: check {brokers.names.sign_in}"
    if isinstance(error, _NO_SUCH_SIGN_IN):
        return f"{brokers} does not offer {brokers.names.mechanism}"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"({error.verify_message}): check {brokers.names.authority}"
        return f"the certificate of {brokers} is not trusted {why}"
    if isinstance(error, NotABrokerError):
        return f"{error.where or brokers} {error.what}: {_what_to_do(error.tls, brokers)}"
    return None


def _what_to_do(tls: TlsHint, brokers: BrokerAccess) -> str:
    names = brokers.names
    match tls:
        case TlsHint.MISSING:
            return f"set {names.tls}, or name its port without TLS"
        case TlsHint.PERHAPS_MISSING:
            return f"check the address, or set {names.tls}"
        case TlsHint.UNWANTED:
            return f"leave out {names.tls}, or name its port with TLS"
    return f"check the address, and {names.tls}"


def refused(heard: ConnectErrors, brokers: BrokerAccess) -> BaseException | None:
    """Return an error of REFUSALS, from whichever address, or None."""
    return next((it for it in _causes(heard, brokers) if isinstance(it, REFUSALS)), None)


def strangers(heard: ConnectErrors, brokers: BrokerAccess) -> list[str]:
    """Return a line for each address at which something else than a broker answered, or nothing did."""
    found = {it.where: it for it in _causes(heard, brokers) if isinstance(it, NotABrokerError)}
    return [str(refusal(found[where], brokers)) for where in sorted(found)]


def not_connected(heard: ConnectErrors, brokers: BrokerAccess, error: BaseException) -> str:
    """Return one line about a start that has failed: what is refused, or else who is there at all."""
    if (why := refused(heard, brokers)) is not None:
        return str(refusal(why, brokers))
    away = [cause for cause in _causes(heard, brokers) if not isinstance(cause, NotABrokerError)]
    lines = strangers(heard, brokers)
    if lines and not away:
        return "; ".join(lines)
    cause = min((str(it) or type(it).__name__ for it in away), default=str(error))
    return "; ".join([f"{no_answer(brokers)} ({cause})", *lines])


def _causes(heard: ConnectErrors, brokers: BrokerAccess) -> list[BaseException]:
    """Return what was heard of its own addresses; else what came last.

    Another cluster's client may start at the same time.
    """
    # aiokafka tells host and port, also where the setting leaves out the port.
    own = {
        name for it in brokers.addresses.replace(" ", "").split(",") for name in (it, f"{it}:{DEFAULT_PORT}")
    }
    found = [error for where, error in heard.by_address.items() if where in own]
    return found or ([heard.last] if heard.last else [])


def no_answer(brokers: BrokerAccess) -> str:
    """Return the line for brokers that don't answer, or not in this way.

    With TLS 1.3 a broker that refuses our certificate only closes the connection.
    """
    names = brokers.names
    has_pair = brokers.tls is not None and brokers.tls.key_pem
    refused = f", or it does not take {names.certificate}" if has_pair else ""
    return f"no {names.broker} answers at {brokers}{refused}" + (f": {names.advice}" if names.advice else "")
