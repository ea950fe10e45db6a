"""The table of `make test-brokers`: what failed is never among what passed."""

from pathlib import Path

from broker_versions import VERSIONS, Outcome, jars_of, read_outcome, suites_of, table

from headrace.runtime.embedded.kafka.jars import KAFKA_VERSION

REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/><testcase classname="a" name="skips"><skipped/></testcase>
<testcase classname="b" name="fails"><failure>why</failure></testcase>
<testcase classname="b" name="breaks"><error>why</error></testcase>
</testsuite></testsuites>"""


def test_failures_are_told_by_name(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    outcome = read_outcome(report, 1)
    assert outcome == Outcome(1, 1, ("b::fails", "b::breaks"))
    shown = table({"3.9.2": {"classic": outcome}})
    assert shown.splitlines()[-1] == "| 3.9.2 | 1 passed, 2 FAILED, 1 skipped | - | - |"


def test_tests_that_did_not_run_have_failed(tmp_path: Path) -> None:
    assert read_outcome(tmp_path / "none.xml", 2) == Outcome(0, 0, ("pytest ended with 2",))


def test_only_the_embedded_kafka_has_locked_jars() -> None:
    for version in VERSIONS:
        jars = jars_of(version)
        assert jars.lock.is_open == (version != KAFKA_VERSION)
        assert f'name="kafka_2.13" rev="{version}"' in jars.module
    assert ["consumer" in suites_of(version) for version in ("3.9.2", "4.0.2")] == [False, True]
