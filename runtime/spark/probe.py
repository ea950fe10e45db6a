"""A look at a remote server, in a process of its own: to import pyspark takes memory, and calls may hang.

`python -m headrace.runtime.spark.probe` reads `url`, `conf` and `seconds` as JSON from stdin, and prints an
object a line, as it learns it: `client` and `server` are versions of Spark, `python` is the minor version
with which functions run there, `problem` is a clause about spec.spark, and the last line. No answer is waited
for longer than `seconds`, and a function four times as long.
"""

import json
import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from headrace.runtime.spark.link import Endpoint, channel_options
from headrace.runtime.spark.refusals import describe_refusal, late_answer

Found = dict[str, str]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may take for one answer, and who is told that it took longer."""

    seconds: float
    tell: Callable[[Found], None]

    @contextmanager
    def of(self, endpoint: Endpoint, stage: str, times: int = 1) -> Iterator[None]:
        """Tell, while the body still waits, that the server did not do what `stage` says in its time."""
        seconds = times * self.seconds
        end = threading.Timer(seconds, lambda: self.tell({"problem": late_answer(endpoint, stage, seconds)}))
        end.daemon = True
        end.start()
        try:
            yield
        finally:
            end.cancel()


def look(url: str, conf: Mapping[str, str], patience: Patience) -> Iterator[Found]:
    """Yield what is learned of the server at a `session_url`, the most basic first. Raises Spark's errors."""
    import pyspark
    from pyspark.sql.connect import functions as sql
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    endpoint, address = Endpoint.parse(url), f"{url};session_id={uuid.uuid4()}"
    os.environ |= {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": address}  # what pyspark goes by
    builder = DefaultChannelBuilder(address, channel_options(endpoint.host))
    session = SparkSession.builder.channelBuilder(builder).create()
    session.client.set_retry_policies([])  # the first refusal is the answer
    with patience.of(endpoint, "tell its version"):
        yield {"client": pyspark.__version__, "server": session.version}
    for key, value in conf.items():
        with patience.of(endpoint, f"take spec.spark.conf.{key}"):
            try:
                session.conf.set(key, value)
            except Exception as error:
                # What Spark says of it may have the value in it.
                yield {"problem": f"its conf.{key} is refused ({type(error).__name__}); remove it"}
                return
    with patience.of(endpoint, "run a function of Python", times=4):  # executors may have to be started
        python: Any = sql.udf(lambda _: "{}.{}".format(*__import__("sys").version_info), "string")
        (there,) = session.range(1).select(python("id")).collect()[0]
        yield {"python": there}
    with patience.of(endpoint, "end a session"):
        session.stop()


def main() -> None:
    """Print what `look` yields, and end, whatever still waits for the server."""
    given = json.load(sys.stdin)
    logging.disable()  # what Spark's client logs is in what it raises
    lock = threading.Lock()

    def tell(found: Found) -> None:
        with lock:
            print(json.dumps(found), flush=True)  # noqa: T201  # to whoever has started this
            if "problem" in found:
                os._exit(0)

    has_answered = False
    try:
        for found in look(given["url"], given["conf"], Patience(given["seconds"], tell)):
            has_answered = has_answered or "server" in found
            tell(found)
    except Exception as error:
        endpoint = Endpoint.parse(given["url"])
        tell({"problem": describe_refusal(error, endpoint, has_answered=has_answered)})
    os._exit(0)


if __name__ == "__main__":
    main()
