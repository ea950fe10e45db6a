"""Matyan's own published client, as it is: create, track with contexts, tag, log, upload, read back."""

import json
import subprocess
import sys
from pathlib import Path

from broker import Broker
from replica import environment, wait_until
from run_tracking_scene import Scene

SCRIPT = """
import math, sys
from matyan_client import Repo, Run

frontier, backend, run_hash, artifact = sys.argv[1:]
run = Run(run_hash, repo=backend, frontier_url=frontier, experiment="baseline", capture_terminal_logs=False)
run.name = "the published client"
run["hparams"] = {"lr": 0.01, "layers": [4, 2]}
run["hparams.seed"] = 7
for step in range(50):
    run.track(1 / (step + 1), name="loss", step=step, context={"subset": "train"})
    run.track(step / 50, name="accuracy", context={"subset": "val"})
run.track(math.nan, name="loss", step=50, context={"subset": "train"})
run.add_tag("good")
run.log_info("so far so good")
run.log_artifact(artifact, name="weights.bin")
run.close()
"""
READ = """
import json, os, sys
from matyan_client import Repo
backend, run_hash = sys.argv[1:]
repo = Repo(backend)
http = repo._http
info = http.get_run_info(run_hash)
traces = [
    {"name": "loss", "context": {"subset": "train"}},
    {"name": "accuracy", "context": {"subset": "val"}},
]
print(json.dumps({
    "info": info,
    "metrics": http.get_run_metric_batch(run_hash, traces, record_density=1000),
    "artifact": http.get_artifact(run_hash, "weights.bin").decode(),
    "experiments": http.list_experiments(),
    "exists": repo.run_exists(run_hash),
    "deleted": repo.delete_run(run_hash),
}), flush=True)
os._exit(0)  # a run that nobody closed before the end crashes CPython 3.13.0, in the client's __del__
"""


def test_the_published_client_logs_a_run_and_reads_it_back(broker: Broker, tmp_path: Path) -> None:
    scene = Scene(broker, f"sqlite:///{tmp_path / 'runs.sqlite'}", tmp_path)
    run_hash = "0123456789abcdef0123456789abcdef"
    artifact = tmp_path / "weights.bin"
    artifact.write_text("weights")
    with scene.function() as running:
        running.wait_ready()
        python(SCRIPT, scene.frontier, scene.backend, run_hash, str(artifact))
        wait_until(lambda: run_hash in scene.finished(), about=running)
        said = json.loads(python(READ, scene.backend, run_hash))
        info = said["info"]
        assert info["params"] == {"hparams": {"lr": 0.01, "layers": [4, 2], "seed": 7}}
        props = info["props"]
        assert (props["name"], props["experiment"]["name"]) == ("the published client", "baseline")
        assert ([tag["name"] for tag in props["tags"]], props["active"]) == (["good"], False)
        assert props["end_time"] >= props["creation_time"]
        loss, accuracy = said["metrics"]
        assert loss["iters"] == list(range(51))
        assert loss["values"] == [1 / (step + 1) for step in range(50)] + [None]
        assert accuracy["values"] == [step / 50 for step in range(50)]
        assert (said["artifact"], said["exists"], said["deleted"]) == ("weights", True, True)
        assert [it["name"] for it in said["experiments"]] == ["baseline"]
        wait_until(lambda: not scene.run_ids() and not (scene.blobs / run_hash).exists(), about=running)
        assert running.stop() == 0


def python(script: str, *arguments: str) -> str:
    """What a process of the client's says."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
