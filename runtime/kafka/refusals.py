"""What brokers refuse whoever wants to get in, each as one line that says what to change."""

import ssl

from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.connecting import AnswerTooLargeError
from headrace.runtime.kafka.oauth import TokenRefusedError

_BAD_SIGN_IN = (AuthenticationFailedError, SaslAuthenticationFailed)
_NO_SUCH_SIGN_IN = (UnsupportedSaslMechanismError, IllegalSaslStateError)
REFUSALS = (*_BAD_SIGN_IN, *_NO_SUCH_SIGN_IN, ssl.SSLCertVerificationError)
"""Waiting does not mend these."""


def refusal(error: BaseException | None, brokers: BrokerAccess) -> str | None:
    """The line of one of REFUSALS, or of what is no broker; None of any other error."""
    if isinstance(error, TokenRefusedError):
        return str(error.args[0])
    if isinstance(error, _BAD_SIGN_IN):
        return f"{brokers} refuses the sign-in: check {brokers.names.sign_in}"
    if isinstance(error, _NO_SUCH_SIGN_IN):
        return f"{brokers} does not offer {brokers.names.mechanism}"
    if isinstance(error, ssl.SSLCertVerificationError):
        why = f"({error.verify_message}): check {brokers.names.authority}"
        return f"the certificate of {brokers} is not trusted {why}"
    if isinstance(error, AnswerTooLargeError):
        advice = f": {brokers.names.advice}" if brokers.names.advice else ""
        return f"what answers at {brokers} speaks no Kafka, or only with TLS ({error}){advice}"
    return None


def no_answer(brokers: BrokerAccess) -> str:
    """Nobody is there, or nobody who speaks with us in this way.

    With TLS 1.3 a broker that refuses our certificate only closes the connection.
    """
    names = brokers.names
    has_pair = brokers.tls is not None and brokers.tls.key_pem
    refused = f", or it does not take {names.certificate}" if has_pair else ""
    return f"no {names.broker} answers at {brokers}{refused}" + (f": {names.advice}" if names.advice else "")
