"""Alert rules and dashboard: of metrics that there are, read by Prometheus' own tool, and each rule fires."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker
from kafka_records import produce
from replica import replica, wait_until, write_function
from root import ROOT

from headrace.runtime.metrics.declaration import Metric
from headrace.runtime.metrics.runtime_metrics import METRICS

RULES = ROOT / "docs/operate/alerts.yaml"
DASHBOARD = ROOT / "docs/operate/dashboard.json"
OWN = (
    'replica="",namespace="nuclio",project="default",function="f",trigger_kind="kafka-cluster",trigger_id="t"'
)
PARTITION = f'{OWN},topic="orders",partition="0"'
NAMES = re.compile(r"\b(?:headrace|nuclio)_\w+|\bprocess_\w+")

# What a series says each minute, for three hours, as promtool writes it; the alerts are asked for at its end.
FIRES: Mapping[str, Mapping[str, str]] = {
    "HeadracePartitionHalted": {f"headrace_partition_halted{{{PARTITION}}}": "0x170 1x9"},
    "HeadracePartitionStalled": {
        f"headrace_partition_halted{{{PARTITION}}}": "0x180",
        f"headrace_oldest_open_seconds{{{PARTITION}}}": "0x160 0+60x20",
    },
    "HeadraceAcksMissing": {f"headrace_oldest_unacked_seconds{{{PARTITION}}}": "0x160 0+60x20"},
    "HeadraceLagGrows": {f"headrace_lag_records{{{PARTITION}}}": "0x120 0+100x60"},
    "HeadraceWorkersCrash": {f'headrace_worker_restarts_total{{{OWN},reason="died"}}': "0x169 0+1x10"},
    "HeadraceReplicaRestarts": {
        'process_start_time_seconds{instance="i",replica=""}': "1x160 0+5x20",
        'headrace_build_info{instance="i",replica="",version="1"}': "1x180",
    },
    "HeadraceCommitsFail": {f'headrace_commits_total{{{OWN},result="failure"}}': "0x169 0+1x10"},
    "HeadraceDeadLettersFail": {f"headrace_dead_letter_failures_total{{{OWN}}}": "0x169 0+1x10"},
    "HeadraceCannotJoin": {f"headrace_failed_joins_total{{{OWN}}}": "0x169 0+1x10"},
    "HeadraceRecordsDeletedUnread": {f"headrace_deleted_unread_total{{{OWN}}}": "0x169 0+1x10"},
    "HeadraceRecordsGivenUp": {f'headrace_records_given_up_total{{{OWN},result="moved"}}': "0x179 1"},
}
# As much goes on, and nobody need look.
QUIET: Mapping[str, str] = {
    f"headrace_partition_halted{{{PARTITION}}}": "0x180",
    f"headrace_oldest_open_seconds{{{PARTITION}}}": "_x5 0+1x170",
    f"headrace_oldest_unacked_seconds{{{PARTITION}}}": "0x180",
    f"headrace_lag_records{{{PARTITION}}}": "5000-10x180",
    f'headrace_worker_restarts_total{{{OWN},reason="rebalance"}}': "0+1x180",
    f'headrace_worker_restarts_total{{{OWN},reason="died"}}': "0x170 1x9",
    f'headrace_commits_total{{{OWN},result="success"}}': "0+60x180",
    f'headrace_commits_total{{{OWN},result="failure"}}': "3x180",
    f"headrace_dead_letter_failures_total{{{OWN}}}": "7x180",
    f"headrace_failed_joins_total{{{OWN}}}": "2x180",
    f"headrace_deleted_unread_total{{{OWN}}}": "2x180",
    f'headrace_records_given_up_total{{{OWN},result="moved"}}': "4x180",
    'process_start_time_seconds{instance="i",replica=""}': "1x180",
    'headrace_build_info{instance="i",replica="",version="1"}': "1x180",
}


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool: apt-get install prometheus")
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def dashboard_expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def shown_names(metric: Metric) -> list[str]:
    ends = {"counter": ["_total"], "gauge": [""], "summary": ["_sum", "_count"]}
    return [metric.name + end for end in ends.get(metric.kind, ["_sum", "_count", "_bucket"])]


def test_they_are_made_of_metrics_that_there_are() -> None:
    known = {name for metric in METRICS for name in shown_names(metric)}
    known |= {"process_start_time_seconds", "process_resident_memory_bytes"}
    used = {
        name
        for text in (*(r["expr"] for r in rules()), *dashboard_expressions())
        for name in NAMES.findall(text)
    }
    assert used - known == set()
    assert len(used) > 20


def test_the_page_explains_each_rule() -> None:
    page = (ROOT / "docs/operate/alerts.md").read_text()
    assert re.findall(r"^\| (Headrace\w+) \|", page, re.MULTILINE) == [rule["alert"] for rule in rules()]
    assert set(FIRES) == {rule["alert"] for rule in rules()}


def run(promtool: str, *arguments: str) -> str:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_reads_the_rules_and_what_the_dashboard_asks(promtool: str, tmp_path: Path) -> None:
    run(promtool, "check", "rules", str(RULES))
    asked = [text.replace("$__rate_interval", "5m") for text in dashboard_expressions()]
    recorded = [{"record": f"dashboard:{number}", "expr": expr} for number, expr in enumerate(asked)]
    path = tmp_path / "asked.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    run(promtool, "check", "rules", str(path))


def alerts_of(promtool: str, folder: Path, series: Mapping[str, str], expected: Sequence[str]) -> None:
    """AssertionError where at the end other alerts fire than these."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "3h",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)
                ],
            }
        ],
    }
    path = folder / "test.yaml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]})
    )
    run(promtool, "test", "rules", str(path))


@pytest.mark.parametrize("name", FIRES)
def test_an_alert_fires_for_what_it_is_about_and_no_other_one(
    promtool: str, tmp_path: Path, name: str
) -> None:
    alerts_of(promtool, tmp_path, FIRES[name], [name])


def test_nothing_fires_where_all_goes_well(promtool: str, tmp_path: Path) -> None:
    alerts_of(promtool, tmp_path, QUIET, [])


def test_a_halted_partition_of_a_run_fires(promtool: str, broker: Broker, tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            raise ValueError("never")
    """
    topic = broker.create_topic(1)
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], onFailure={"maxAttempts": 1})
    produce(broker, topic, 1, 1)
    with replica(folder) as running:
        wait_until(lambda: "headrace_partition_halted" in running.get("/metrics")[1], about=running)
        wait_until(lambda: running.get("/ready")[0] == 503 and "halted" in running.get("/ready")[1])
        samples = [line.rsplit(" ", 1) for line in running.get("/metrics")[1].splitlines() if line[0] != "#"]
    series = {name: f"{float(value):g}x180" for name, value in samples if "_bucket" not in name}
    alerts_of(promtool, tmp_path, series, ["HeadracePartitionHalted"])
