"""The table of Spark versions, and what is said of pairs of them."""

import pytest

from headrace.runtime.embedded.spark.jars import spark_lock
from headrace.runtime.spark.versions import (
    Minor,
    fault_of_server,
    nearest_version,
    notice_of_java,
    notice_of_versions,
    spark_versions,
)


def test_rows_are_in_order_and_each_has_a_lock_and_an_older_server_at_most_its_own() -> None:
    minors = [version.minor for version in spark_versions()]
    assert minors == sorted(set(minors))
    for version in spark_versions():
        assert Minor.of(version.tested) == version.minor
        assert f"spark-sql-kafka-0-10_2.13:{version.connector} " in spark_lock(version.connector).read_text()
        assert version.rows_need_server in minors
        assert version.rows_need_server <= version.minor


@pytest.mark.parametrize(
    ("pyspark", "minor"),
    [
        ("4.0.1", "4.0"),
        ("4.2.9", "4.2"),
        ("4.3.0.dev1", "4.3"),
        ("4.99.0", "4.3"),
        ("5.0.0", "4.3"),
        ("", "4.0"),
    ],
)
def test_a_version_has_the_newest_row_that_is_not_newer(pyspark: str, minor: str) -> None:
    assert str(nearest_version(pyspark).minor) == minor


def test_only_what_is_newer_than_all_that_was_tested_is_noted() -> None:
    assert notice_of_versions("4.3.7", "3.9.0") == notice_of_versions("4.0.1", "2.2.0") == ""
    assert notice_of_versions("4.4.0", "4.0.1") == (
        "runs with PySpark 4.4.0; it is tested with 4.0.5, 4.1.4, 4.2.1 and 4.3.0 "
        "and with pandas 4.0.1; it is tested with 2 and 3"
    )


@pytest.mark.parametrize(
    ("client", "server"),
    [("4.0.5", "4.3.0"), ("4.3.0", "4.1.4"), ("4.3.0", "4.3.0"), ("4.1.4", "4.1.0"), ("4.3.0", "a vendor's")],
)
def test_pairs_that_work_have_no_fault(client: str, server: str) -> None:
    assert fault_of_server(client, server) == ""


def test_of_a_server_older_than_all_that_is_tested_the_remedy_is_a_newer_server() -> None:
    fault = fault_of_server("4.3.0", "3.5.1")
    assert fault == "the Spark server is 3.5.1, which isn't tested; install Spark 4.1 or newer there"


def test_a_client_that_asks_too_much_of_its_server_is_told_both_versions_and_what_to_install() -> None:
    fault = fault_of_server("4.3.0", "4.0.5-vendor-1")
    assert "the Spark server is 4.0.5-vendor-1, older than this client, PySpark 4.3.0" in fault
    assert "install pyspark==4.0.* here, or Spark 4.1 or newer there" in fault


@pytest.mark.parametrize(
    ("pyspark", "java"),
    [("4.0.5", "17"), ("4.3.0", "17.0.18+8-Debian-1deb12u1"), ("4.3.0", "25.0.3+9-LTS"), ("4.2.0", "25.1")],
)
def test_a_java_that_spark_is_made_for_is_not_noted(pyspark: str, java: str) -> None:
    assert notice_of_java(pyspark, java) == ""


@pytest.mark.parametrize(
    ("pyspark", "java"), [("4.1.4", "25.0.3"), ("4.3.0", "25.0.2+10"), ("4.3.0", "23.0.1")]
)
def test_another_java_is_noted_with_those_that_fit(pyspark: str, java: str) -> None:
    notice = notice_of_java(pyspark, java)
    assert f"here is {java}: set JAVA_HOME to one of these" in notice
    assert ("25.0.3 or newer of 25" in notice) == (pyspark >= "4.2")
