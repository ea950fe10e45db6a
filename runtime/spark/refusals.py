"""Refusals of a Spark Connect server, or of what stands in its place: which it is, and what to do. Pure."""

import re
from collections.abc import Iterator
from urllib.parse import quote

from headrace.runtime.errors import one_line
from headrace.runtime.spark.link import Endpoint

# "Python in worker has different version: 3.12 than that in driver: 3.11", in all versions of Spark.
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\D*(\d+\.\d+)\D*(\d+\.\d+)")
_SHOWN = {"use_ssl", "user_id", "user_agent"}  # parameters of an address that are no secrets
# What gRPC says, in part, and what that means. The first that is found counts.
_MEANINGS = {
    r"Connection refused": "nobody listens at {at}; start the server, or correct spec.spark.remote",
    r"DNS|errors resolving|Domain name": "{host} is no name of a machine; correct spec.spark.remote",
    r"CERTIFICATE_VERIFY_FAILED|Peer name": "the certificate of {at} is of nobody that this machine trusts,"
    " or of another name; the variable GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names a file of authorities",
    r"WRONG_VERSION_NUMBER": "{at} has no TLS, which a token asks for on any host but localhost; put TLS in"
    " front of the server, or remove token",
    r"UNAUTHENTICATED": "{at} refuses the token; correct spec.spark.token",
    r"UNIMPLEMENTED|HTTP": "what listens at {at} is no Spark Connect server; correct spec.spark.remote",
    r"Socket closed|Connection reset|recvmsg|GOAWAY": "{at} ends each connection at once: it is no Spark"
    " Connect server, or asks for TLS; with a token, or ;use_ssl=true in remote, there is TLS",
    r"timed? ?out|unreachable|No route": "{at} is not to be reached from here; correct spec.spark.remote, or"
    " look for a firewall",
}


def describe_refusal(error: BaseException, endpoint: Endpoint, *, has_answered: bool = False) -> str:
    """Return what an error of Spark's client means, as a clause about spec.spark; no secret is in it.

    `has_answered`: the server is known to be there, and what it says is about something else.
    """
    at = f"{endpoint.host}:{endpoint.port}"
    said = " ".join(_texts(error))
    if mismatch := python_mismatch(said):
        return mismatch
    if not has_answered and "UNAUTHENTICATED" in said and "token" not in endpoint.params:
        return f"{at} asks for a token; write it as spec.spark.token"
    for pattern, meaning in () if has_answered else _MEANINGS.items():
        if re.search(pattern, said):
            return meaning.format(at=at, host=endpoint.host)
    for name, value in endpoint.params.items():
        if value and name not in _SHOWN:
            said = said.replace(value, "***").replace(quote(value, safe=""), "***")
    return f"{at} refuses what Headrace asks of it: {one_line(' '.join(said.split()))}"


def python_mismatch(said: str) -> str:
    """Return what Spark says of two Pythons, as a clause about spec.spark; empty where it says nothing."""
    if not (found := _OTHER_PYTHON.search(said)):
        return ""
    there, here = found.groups()
    return (
        f"no function of Python (UDF) runs there: the server has Python {there}, here is {here};"
        f" run Headrace with Python {there}, or give the server {here} (PYSPARK_PYTHON)"
    )


def late_answer(endpoint: Endpoint, stage: str, seconds: float) -> str:
    """Return that the server didn't do what `stage` says in its time, as a clause about spec.spark."""
    at = f"{endpoint.host}:{endpoint.port}"
    return f"{at} did not {stage} within {seconds:g} s; look at the server, or correct spec.spark.remote"


def _texts(error: BaseException) -> Iterator[str]:
    """Yield what an error says and what those say that it was raised from: gRPC's own has the cause."""
    seen: BaseException | None = error
    while seen is not None:
        details = getattr(seen, "debug_error_string", None)
        yield f"{type(seen).__name__}: {seen}"
        if callable(details):
            yield str(details())
        seen = seen.__cause__ or seen.__context__
