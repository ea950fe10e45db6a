"""A session whose server is older than its client: what is set for it, and what it can not do."""

import logging
from typing import Any

import pyspark
import pytest
from pyspark.errors import PythonException

from headrace.runtime.worker.api import spark
from headrace.runtime.worker.api.spark import SparkVersionError, WorkerSpark

LIMIT = "spark.sql.session.localRelationSizeLimit"

MISMATCH = (
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11,"
    " PySpark cannot run with different minor versions."
)


class Conf(dict[str, str]):
    """Settings of a session; the server knows no others."""

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]

    def set(self, key: str, value: str) -> None:
        self[key] = value


class Session:
    """One of a server of this version, whose createDataFrame raises `error` if there is one."""

    def __init__(self, version: str, error: Exception | None = None, limit: str = "") -> None:
        self.version = version
        self.error = error
        self.conf = Conf({LIMIT: limit} if limit else {})

    def createDataFrame(self, rows: object) -> object:  # noqa: N802  # Spark's name
        if self.error is not None:
            raise self.error
        return rows


@pytest.fixture(autouse=True)
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")


def test_a_limit_that_newer_clients_can_not_read_is_set_to_the_same_as_a_number() -> None:
    session = Session("4.1.4", limit="3221225472b")
    spark._compare_versions(session)
    assert session.conf == {LIMIT: "3221225472"}


@pytest.mark.parametrize(("version", "limit"), [("4.1.4", "1000"), ("4.1.4", "1g"), ("4.3.0", "3221225472b")])
def test_a_limit_that_is_somebodys_own_or_of_a_server_that_is_no_older_stays(
    version: str, limit: str
) -> None:
    session = Session(version, limit=limit)
    spark._compare_versions(session)
    assert session.conf == {LIMIT: limit}


def test_rows_that_an_older_server_does_not_take_say_both_versions_and_what_to_install(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = Session("4.0.5", error=RuntimeError("[SQL_CONF_NOT_FOUND] The SQL config cannot be found"))
    spark._compare_versions(session)
    (logged,) = caplog.messages
    with pytest.raises(SparkVersionError) as raised:
        session.createDataFrame([])
    assert str(raised.value) == logged
    assert logged == (
        "the Spark server is 4.0.5, older than this client, PySpark 4.3.0: it takes no rows from here"
        " (createDataFrame, events_to_dataframe); install pyspark==4.0.* here, or Spark 4.1 or newer there"
    )


def test_what_else_is_wrong_with_rows_is_said_as_spark_says_it() -> None:
    session = Session("4.0.5", error=TypeError("no rows"))
    spark._compare_versions(session)
    with pytest.raises(TypeError, match="no rows"):
        session.createDataFrame([])


def test_a_vendors_server_that_takes_rows_has_them(caplog: pytest.LogCaptureFixture) -> None:
    session = Session("4.0.0-vendor")
    spark._compare_versions(session)
    assert session.createDataFrame([1]) == [1]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_another_python_there_is_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    worker = WorkerSpark("sc://h", "id", {}, __name__, lambda _: None)
    worker.doubt(ValueError("PYTHON_VERSION_MISMATCH 3.12 3.11"))  # nothing that Spark says
    worker.doubt(PythonException(MISMATCH))
    (logged,) = caplog.messages
    assert logged == (
        "spec.spark.remote: no function of Python (UDF) runs there: the server has Python 3.12, here is 3.11;"
        " run Headrace with Python 3.12, or give the server 3.11 (PYSPARK_PYTHON)"
    )
