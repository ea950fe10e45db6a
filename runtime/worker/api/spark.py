"""`context.spark`: the Spark session of a worker process."""

import atexit
import logging
import os
import re
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from headrace.runtime.errors import HeadraceError
from headrace.runtime.spark.link import Endpoint, SharedToken, channel_options
from headrace.runtime.spark.refusals import python_mismatch
from headrace.runtime.spark.versions import fault_of_server, is_older

logger = logging.getLogger("headrace.handler")

# A server forgets sessions that nobody uses, after an hour by default: ask before one is used after a pause.
_IDLE_SECONDS = 300.0
# pyspark's own wait gets as long as a minute between tries; a server that comes back is wanted at once.
_MAX_RETRIES, _MAX_BACKOFF_MS = 600, 1000
_SIZE_LIMIT = "spark.sql.session.localRelationSizeLimit"
# By these, one in each version, pyspark asks the server something when a process ends, and tries as long as
# above where that is gone. There is no need: the processor ends a worker's session.
_AT_EXIT = ("_cleanup_ml", "_cleanup_ml_cache", "_on_exit")
_AWAY_SECONDS, _POLL_SECONDS = 600.0, 0.05  # as long, for a server that is being started again


class SparkVersionError(HeadraceError):
    """A call that a Spark server, older than this client, is known not to take."""


class WorkerSpark:
    """Opens the session on first use, and another one where the server has lost it.

    The processor knows the session by its id, and ends it when this process is gone.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what a session is made of
        self,
        url: str,
        session_id: str,
        conf: Mapping[str, str],
        handler_module: str,
        on_new_id: Callable[[str], None],
        token: SharedToken | None = None,
    ) -> None:
        """`on_new_id` tells the processor of another id, before anything runs under that one.

        `token` is added to the url where the server may be started again, with another one.
        """
        if url:
            # At each import, of every pandas 3, as a warning beside some record. Headrace tests both
            # together, and says itself, once, where a version is newer than that.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        self._url = url
        self._handler_module = handler_module
        self._session_id = session_id
        self._conf = conf
        self._on_new_id = on_new_id
        self._token = token
        self._opened_with = ""
        self._session: Any = None
        self._used_at = 0.0
        self._lock = threading.RLock()  # a signal handler may ask for it as well

    @property
    def session(self) -> Any:
        """The worker's SparkSession.

        Takes about a second the first time (pyspark is imported); later nothing. Raises AttributeError where
        the function has no spec.spark.
        """
        if not self._url:
            raise AttributeError(
                "context.spark needs spec.spark in function.yaml; write spark: {} below spec"
            )
        with self._lock:
            if self._session is None or self._is_lost():
                self._session = self._open()
            self._used_at = time.monotonic()
            return self._session

    def doubt(self, error: BaseException) -> None:
        """Ask whether the session is still there before it is used again: a handler has failed by `error`."""
        self._used_at = 0.0
        if not type(error).__module__.startswith("pyspark."):  # of the user's own, whose text may be anything
            return
        if self._token is None and (mismatch := python_mismatch(str(error))):
            logger.error("spec.spark.remote: %s", mismatch)

    def _is_lost(self) -> bool:
        # pyspark closes its side when an answer comes from a server that was started again.
        if self._session.is_stopped or (self._token and self._token.parameter != self._opened_with):
            _close(self._session)
            logger.warning("the Spark server was started again: a new session; temporary views are gone")
            return True
        if time.monotonic() - self._used_at < _IDLE_SECONDS:
            return False
        try:
            self._session.conf.get("spark.app.name")
        except Exception as error:
            logger.warning("the Spark session was closed while idle (%s): a new one", type(error).__name__)
            if not self._session.is_stopped:  # closed for good: its id will not be taken again
                self._session_id = str(uuid.uuid4())
                self._on_new_id(self._session_id)
            return True
        return False

    def _open(self) -> Any:
        from pyspark import cloudpickle
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        self._opened_with = _await_token(self._token) if self._token else ""
        url = f"{self._url}{self._opened_with};session_id={self._session_id}"
        # What pyspark's own functions go by, and SparkSession.builder.getOrCreate() in a handler's code.
        os.environ |= {"SPARK_CONNECT_MODE_ENABLED": "1", "SPARK_REMOTE": url}
        # It prints each error's trace as JSON; the exception says the same where it is handled.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL + 1)
        # Python on Spark's side can't import the handler's file: what it needs of that travels with it.
        cloudpickle.register_pickle_by_value(sys.modules[self._handler_module])  # type: ignore[no-untyped-call]  # not ours
        builder = DefaultChannelBuilder(url, channel_options(Endpoint.parse(url).host))
        session = SparkSession.builder.channelBuilder(builder).create()
        session.client.set_retry_policies([DefaultPolicy(_MAX_RETRIES, 2.0, max_backoff=_MAX_BACKOFF_MS)])
        for name in _AT_EXIT:
            if hook := getattr(session.client, name, None):
                atexit.unregister(hook)
        try:
            for key, value in self._conf.items():
                session.conf.set(key, value)
            if self._token is None:  # else the server is ours, of the version that is installed here
                _compare_versions(session)
        except BaseException:
            _close(session)
            raise
        # A closed session's id is refused for good, and plans of batches name sessions by id.
        session.stop = _stay_open  # type: ignore[method-assign]  # what ends here would end for the worker
        return session


def _close(session: Any) -> None:
    """Close this side of a session alone. Else getOrCreate(), and UDFs, would find it before the next one."""
    session.release_session_on_close = False
    type(session).stop(session)


def _compare_versions(session: Any) -> None:
    """Ask the server's version, and have rows go to an older one, or say why they don't."""
    import pyspark

    client, server = pyspark.__version__, session.version
    if is_older(server, client):
        _show_limit_as_number(session)
    if fault := fault_of_server(client, server):
        logger.warning(fault)
        session.createDataFrame = _explained(session.createDataFrame, fault)


def _show_limit_as_number(session: Any) -> None:
    """Set a limit to what it is.

    Spark 4.1 says 3221225472b, which createDataFrame of newer clients doesn't read; what is set for a
    session it says as it was set.
    """
    try:
        limit = session.conf.get(_SIZE_LIMIT)
    except Exception:  # Spark 4.0 has none
        return
    if re.fullmatch(r"\d+b", limit):
        session.conf.set(_SIZE_LIMIT, limit[:-1])


def _explained(create: Callable[..., Any], fault: str) -> Callable[..., Any]:
    """Return createDataFrame that says what is wrong, and not the name of a setting that the server lacks."""

    def create_dataframe(*args: Any, **kwargs: Any) -> Any:
        # Tried all the same: a vendor's server may have more than its version says.
        try:
            return create(*args, **kwargs)
        except Exception as error:
            if "SQL_CONF_NOT_FOUND" not in str(error):
                raise
            raise SparkVersionError(fault) from error

    return create_dataframe


def _stay_open() -> None:
    logger.warning("spark.stop() does nothing here: the session is the worker's, and ends with it")


def _await_token(token: SharedToken) -> str:
    """Return what the token adds to the address, once a server is there. Raises TimeoutError."""
    deadline = time.monotonic() + _AWAY_SECONDS
    while not (found := token.parameter):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Spark has not come back for {_AWAY_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
    return found
