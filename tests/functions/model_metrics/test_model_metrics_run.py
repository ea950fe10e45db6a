"""The function as it comes, with Spark, its page and the traffic that it brings along."""

import json
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml
from broker import Broker
from model_metrics_scene import FUNCTION
from replica import QUICK_GROUP, Replica, environment, replica, wait_until
from spark import SharedSpark

COUNT = 400


def write(folder: Path, broker: Broker, spark: SharedSpark, group: str) -> Path:
    """With a broker, a Spark and a port of the test's own."""
    document = yaml.safe_load(FUNCTION.read_text())
    spec = document["spec"]
    spec["spark"] = {"remote": spark.link.url, "token": spark.link.token}
    spec["triggers"]["web"]["attributes"] = {"port": 0}
    attributes = {"brokers": [broker.bootstrap], "consumerGroup": group, **QUICK_GROUP}
    spec["triggers"]["responses"]["attributes"] |= attributes
    folder.mkdir()
    (folder / "function.yaml").write_text(yaml.safe_dump(document))
    return folder


def ask(running: Replica, path: str, **fields: str) -> Any:
    site = running.log.split("web: listens at ")[1].split()[0]
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    with urllib.request.urlopen(f"{site}/{path}?{query}", timeout=60) as answer:
        return json.loads(answer.read())


@pytest.mark.full
def test_traffic_becomes_scores(broker: Broker, spark: SharedSpark, tmp_path: Path) -> None:
    prefix = f"prefix{uuid.uuid4().hex[:8]}"
    variables = {
        "KAFKA_CONSUMER_TOPIC_PREFIX": prefix,
        "KAFKA_METADATA_REFRESH_FREQUENCY": "1s",
        "KAFKA_CONSUMER_POLL_INTERVAL": "1s",
        "FEEDBACK_TOPIC": f"{prefix}.feedback",
        "DATABASE_URL": f"sqlite:///{tmp_path / 'it.sqlite'}",
    }
    traffic = [sys.executable, "-m", "headrace.functions.model_metrics.traffic", "--seed", "7"]
    traffic += ["--brokers", broker.bootstrap, "--count", str(COUNT), "--rate", "500", "--feedback", "1"]
    said = subprocess.run(
        traffic, env=environment(**variables), capture_output=True, text=True, check=False, timeout=120
    )
    assert (said.stdout, said.returncode) == (f"{COUNT} responses\n", 0), said.stderr
    with replica(write(tmp_path / "f", broker, spark, prefix), variables=variables) as running:
        running.wait_ready()
        wait_until(lambda: _predictions(running) == COUNT, about=running)
        models = ask(running, "api/v1/models")
        assert sum(model["responses"] for model in models) == COUNT
        (iris,) = (it for it in models if (it["modelName"], it["modelVersion"]) == ("iris", "2"))
        scores = ask(running, "api/v1/metrics/pipeline/classification", **_name(iris))
        assert scores["predictions"] == iris["responses"]
        assert 0.85 < scores["accuracy"] < 1
        assert sum(count for *_, count in scores["confusion"]) == scores["predictions"]
        assert ask(running, "api/v1/ignored") == {}
        assert running.stop() == 0


def _predictions(running: Replica) -> int:
    found = 0
    for model in ask(running, "api/v1/models"):
        kind = "classification" if model["modelName"] == "iris" else "regression"
        found += ask(running, f"api/v1/metrics/pipeline/{kind}", **_name(model))["predictions"]
    return found


def _name(model: dict[str, Any]) -> dict[str, str]:
    return {name: model[name] for name in ("namespace", "pipelineName", "modelName", "modelVersion")}
