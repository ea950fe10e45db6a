"""Ending of Spark sessions from outside: a worker that is gone may have left something running there.

Two small calls of Spark Connect's protocol, made by hand. pyspark has them too, but importing it takes over a
second and 130 MB; grpc alone 0.1 s and 28 MB.
"""

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from headrace.runtime.errors import HeadraceError
from headrace.runtime.spark.link import Endpoint, channel_options

if TYPE_CHECKING:
    import grpc

_SECONDS = 3.0  # a server that is well takes 0.1; a revoke waits 5 for killed workers
_MARGIN_SECONDS = 1.0  # for what no deadline of a call covers: importing grpc, asking for a name
_SERVICE = "/spark.connect.SparkConnectService"
_PARAMETERS = {"token", "use_ssl", "user_id", "user_agent", "session_id"}  # the other parameters are headers


class SparkSessionError(HeadraceError):
    """A session could not be ended: what it runs may go on for as long as its server lets it."""


async def interrupt(url: str, session_id: str) -> None:
    """Cancel all that the session runs, and close it for good. A session that isn't there is no error.

    `url` is a SparkLink's `session_url`. Never blocks the event loop, and returns within 4 s. Raises
    SparkSessionError.
    """
    ended: Future[None] = Future()
    ended.set_running_or_notify_cancel()  # whoever waits no longer can't take it from its thread

    def end() -> None:
        try:
            _end(url, session_id)
        except Exception as error:  # told to whoever waits
            ended.set_exception(error)
        else:
            ended.set_result(None)

    # A thread of its own: behind those of a pool that a hung server holds, a worker that is dead would seem
    # to have survived its kill.
    threading.Thread(target=end, name="spark-session-end", daemon=True).start()
    try:
        async with asyncio.timeout(_SECONDS + _MARGIN_SECONDS):
            await asyncio.wrap_future(ended)
    except TimeoutError:
        raise _refusal(Endpoint.parse(url), session_id, "it does not answer") from None


def _end(url: str, session_id: str) -> None:
    import grpc

    endpoint, deadline = Endpoint.parse(url), time.monotonic() + _SECONDS
    with _channel(endpoint) as channel:
        for is_last in (False, True):
            try:
                _ask_to_end(channel, endpoint, session_id, deadline)
            except grpc.RpcError as error:
                # A session that was closed before, by time or by its user, can't be asked for anything.
                if "SESSION_CLOSED" in str(error):
                    return
                # Spark trips over a job that has not begun yet. By then it has closed the session, mostly.
                if error.code() is grpc.StatusCode.INTERNAL and not is_last:
                    continue
                said = " ".join(f"{error.code().name}: {error.details()}".split())
                raise _refusal(endpoint, session_id, said) from None
            else:
                return


def _refusal(endpoint: Endpoint, session_id: str, why: str) -> SparkSessionError:
    at = f"{endpoint.host}:{endpoint.port}"
    return SparkSessionError(f"Spark at {at} did not end session {session_id}: {why}")


def _ask_to_end(channel: "grpc.Channel", endpoint: Endpoint, session_id: str, deadline: float) -> None:
    """Interrupt and release the session. Raises grpc.RpcError."""
    headers = [(key, value) for key, value in endpoint.params.items() if key not in _PARAMETERS]
    user = endpoint.params.get("user_id", "")
    for method, request in (
        ("Interrupt", interrupt_request(session_id, user)),
        ("ReleaseSession", release_request(session_id, user)),
    ):
        call = channel.unary_unary(f"{_SERVICE}/{method}")
        call(request, timeout=deadline - time.monotonic(), metadata=headers)


def _channel(endpoint: Endpoint) -> "grpc.Channel":
    """Open a channel as pyspark does: TLS wherever there is a token, except on `localhost`."""
    import grpc

    target, token = f"{endpoint.host}:{endpoint.port}", endpoint.params.get("token")
    options = channel_options(endpoint.host)
    is_tls = endpoint.params.get("use_ssl", "").lower() == "true"
    if not token and not is_tls:
        return grpc.insecure_channel(target, options)
    is_local = endpoint.host == "localhost" and not is_tls
    credentials = grpc.local_channel_credentials() if is_local else grpc.ssl_channel_credentials()
    if token:
        call_credentials = grpc.access_token_call_credentials(token)
        credentials = grpc.composite_channel_credentials(credentials, call_credentials)
    return grpc.secure_channel(target, credentials, options)


def interrupt_request(session_id: str, user: str) -> bytes:
    """Encode an InterruptRequest of Spark Connect's protocol, with INTERRUPT_TYPE_ALL."""
    return release_request(session_id, user) + b"\x20\x01"


def release_request(session_id: str, user: str) -> bytes:
    """Encode a ReleaseSessionRequest of Spark Connect's protocol."""
    return _text(1, session_id.encode()) + _text(2, _text(1, user.encode()))


def _text(number: int, value: bytes) -> bytes:
    """Encode a field of a protocol buffer: tag, length, bytes."""
    length, size = bytearray(), len(value)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + value
