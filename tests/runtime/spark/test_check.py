"""What is said of a remote Spark server that handlers could not use, and of one that they can."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from pyspark.sql.connect import udf
from pyspark.sql.connect.session import SparkSession
from spark import SharedSpark

from headrace.runtime.spark import check
from headrace.runtime.spark.check import check_remote
from headrace.runtime.spark.link import Endpoint, SparkLink
from headrace.runtime.spark.probe import Patience, look
from headrace.runtime.spark.refusals import describe_refusal


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """As it was."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def refusal(link: SparkLink) -> str:
    """What the probe would say, without a process of its own."""
    try:
        found = list(look(link.session_url, link.conf, Patience(600, lambda _: None)))
    except Exception as error:
        return describe_refusal(error, Endpoint.parse(link.session_url))
    finally:  # else the next one's functions would go to this session
        SparkSession._default_session = SparkSession._active_session.session = None
    return found[-1]["problem"]


@contextmanager
def listening(answer: bytes = b"") -> Iterator[str]:
    """An address of somebody who gives each this answer and ends the connection; without one says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test is over
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        if answer:
            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_nobody_at_the_address_is_told_from_somebody_who_is_no_spark() -> None:
    with listening(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as at:
        other = refusal(SparkLink(f"sc://{at}", ""))
        assert other == f"what listens at {at} is no Spark Connect server; correct spec.spark.remote"
        plain = refusal(SparkLink(f"sc://{at}", "hunter2"))
        assert plain.startswith(
            f"{at} has no TLS, which a token asks for on any host but localhost; put TLS in"
        )
    with listening() as at:  # another, as clients remember what they met at an address
        pass
    nobody = refusal(SparkLink(f"sc://{at}", ""))
    assert nobody == f"nobody listens at {at}; start the server, or correct spec.spark.remote"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "UNAVAILABLE:errors resolving h:7: [address lookup failed for h:7: Domain name not found]",
            "h is no name of a machine; correct spec.spark.remote",
        ),
        ("DNS resolution failed for h:7", "h is no name of a machine; correct spec.spark.remote"),
        ("SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED", "the certificate of h:7 is of nobody that this machine"),
        ("UNAVAILABLE: Socket closed", "h:7 ends each connection at once: it is no Spark Connect server, or"),
        (
            "connect: Connection timed out",
            "h:7 is not to be reached from here; correct spec.spark.remote, or",
        ),
        ("nothing known hunter2\nx", "h:7 refuses what Headrace asks of it: Exception: nothing known *** x"),
    ],
)
def test_a_refusal_says_what_to_do_and_no_secret(said: str, expected: str) -> None:
    found = describe_refusal(Exception(said), Endpoint.parse("sc://h:7/;token=hunter2"))
    assert found.startswith(expected)


@pytest.mark.processes
def test_a_server_that_says_nothing_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_SECONDS", 0.5)
    with listening() as at:
        answer = check_remote(SparkLink(f"sc://{at}", ""))
    assert answer.shown == ""
    assert answer.problems == [
        f"{at} did not tell its version within 0.5 s; look at the server, or correct spec.spark.remote"
    ]


def test_what_a_server_refuses_is_told_from_what_it_has(
    spark: SharedSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, at = spark.link.url, spark.link.url.removeprefix("sc://")
    assert refusal(SparkLink(url, "x")) == f"{at} refuses the token; correct spec.spark.token"
    assert refusal(SparkLink(url, "")) == f"{at} asks for a token; write it as spec.spark.token"
    conf = {"spark.sql.shuffle.partitions": "hunter2"}
    refused = refusal(SparkLink(url, spark.link.token, conf))
    assert re.fullmatch(r"its conf\.spark\.sql\.shuffle\.partitions is refused \(\w+\); remove it", refused)
    monkeypatch.setattr(udf, "sys", SimpleNamespace(version_info=(3, 99)))  # what the client says of itself
    mismatch = refusal(SparkLink(url, spark.link.token))
    assert "here is 3.99; run Headrace with Python 3." in mismatch


@pytest.mark.parametrize(
    "said",
    [
        "Job aborted: ConnectException: Connection refused: worker1:44321",
        "HttpURLConnection: 403 for http://minio:9000/rows",
    ],
)
def test_what_an_answering_server_says_of_others_is_not_taken_for_its_own_absence(said: str) -> None:
    refused = describe_refusal(RuntimeError(said), Endpoint.parse("sc://h:15002/;"), has_answered=True)
    assert refused == f"h:15002 refuses what Headrace asks of it: RuntimeError: {said}"


def test_a_refusal_shows_no_secret_and_all_else() -> None:
    endpoint = Endpoint.parse("sc://h:15002/;user_id=me;token=a%2Fb;x-key=hunter2")
    said = "some message: a/b a%2Fb hunter2"
    assert describe_refusal(RuntimeError(said), endpoint, has_answered=True).endswith(
        "some message: *** *** ***"
    )
