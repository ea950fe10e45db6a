"""`make test-matrix`: tests of Spark on each PySpark and pandas, and clients on servers of another version.

Environments and results are in .venv-matrix/; what has its result for this state of the source is skipped.

usage: matrix.py [--spark VERSION] [--pandas MAJOR] [--part cells|pairs]
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from environments import FOLDER, Environment
from outcomes import Outcomes, read_outcomes, table_of_cells, table_of_pairs
from root import ROOT
from servers import ADDRESS

from headrace.runtime.spark.versions import fault_of_server, spark_versions

CONTEXT, RANGES = "tests/runtime/worker/test_spark_context.py", "tests/triggers/kafka/test_ranges_spark.py"
PIPELINE, SINKS = "tests/functions/test_spark_pipeline.py", "tests/functions/test_functions_spark.py"
PAIRS, TIMESTAMPS = "tests/functions/test_spark_pairs.py", "tests/functions/test_spark_timestamps.py"
FULL = {"HEADRACE_TEST_FULL": "1"}  # gives Spark the memory for large batches
CELL = {
    "events": [SINKS, PAIRS, *([TIMESTAMPS] if (ROOT / TIMESTAMPS).exists() else [])],
    "ranges": [RANGES],
    "killed worker": [f"{CONTEXT}::test_the_job_of_a_killed_worker_ends_with_it"],
    "killed server": [
        f"{CONTEXT}::test_a_spark_that_is_killed_comes_back_with_new_sessions_and_no_record_is_lost"
    ],
    "demo's pipeline": [PIPELINE],
}
"""What runs on each PySpark and pandas, with a server of the same version."""
PAIR = {
    "all": [
        PAIRS,
        f"{SINKS}::test_a_batch_is_a_file_per_partition_and_replaces_itself",
        f"{SINKS}::test_json_that_does_not_fit_its_schema_stays_as_text",
        f"{RANGES}::test_ranges_are_read_exactly_also_several_of_one_partition",
        f"{RANGES}::test_a_session_that_was_closed_from_outside_is_replaced_once_a_handler_has_failed",
        f"{CONTEXT}::test_a_handler_uses_spark_its_own_functions_and_the_kafka_source_in_it",
        f"{CONTEXT}::test_a_session_that_is_closed_while_idle_is_replaced_and_the_new_one_ends_with_the_worker",
        f"{PIPELINE}::test_each_order_counts_once_in_both_sinks_whatever_is_killed",
    ]
}
"""What runs with a client on a server of another version: one that both share, so none of it is killed."""


@dataclass(frozen=True, slots=True)
class Run:
    """One pytest in `environment`: `name` is that of its result."""

    name: str
    environment: Environment
    groups: Mapping[str, Sequence[str]]
    options: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def outcomes(self, results: Path) -> Outcomes:
        """Runs it where it has no result yet."""
        result, output = results / f"{self.name}.xml", results / f"{self.name}.txt"
        if not result.exists():
            print(f"{self.name} ...", end=" ", flush=True)
            began = time.monotonic()
            with output.open("w") as written:
                self._run(result.with_suffix(".new"), written.fileno())
            if not result.with_suffix(".new").exists():
                print(f"no result: see {output}", flush=True)
                return Outcomes({}, [f"no result: see {output.relative_to(ROOT)}"])
            result.with_suffix(".new").rename(result)
            said = output.read_text().rstrip().rpartition("\n")[2]
            print(f"{said} ({time.monotonic() - began:.0f} s)", flush=True)
        return read_outcomes(result.read_text(), self.groups)

    def _run(self, result: Path, output: int) -> None:
        command = [str(self.environment.python), "-m", "pytest", f"--junitxml={result}", *self.options]
        env = {**os.environ, **FULL, **self.env}
        subprocess.run(
            [*command, *self.nodes()], cwd=ROOT, env=env, stdout=output, stderr=output, check=False
        )

    def nodes(self) -> list[str]:
        """What pytest is given."""
        return [node for group in self.groups.values() for node in group]


@contextmanager
def servers_of(environment: Environment) -> Iterator[str]:
    """Servers of a run as tests share them, of another environment. Gives their address for ADDRESS."""
    with tempfile.TemporaryDirectory(prefix="headrace-matrix-") as folder:
        address = f"{folder}/socket"
        command = [str(environment.python), "-P", "-m", "server_process", address]
        env = {**os.environ, **FULL, "PYTHONPATH": str(ROOT / "tests" / "support")}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=env
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()  # it listens
            try:
                yield address
            finally:
                process.stdin.close()  # it ends


def state_of_source() -> str:
    """A name for what is tested: the commit, and what differs from it."""
    commit = _git("rev-parse", "--short", "HEAD").strip()
    changes = _git("diff", "HEAD")
    return f"{commit}-{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run_cells(environments: Sequence[Environment], results: Path) -> bool:
    """Print the table; return whether none failed."""
    found = {}
    for environment in environments:
        _make(environment)
        run = Run(environment.name, environment, CELL)
        found[f"{environment.spark}, {environment.pandas}"] = run.outcomes(results)
    print(f"\n{table_of_cells(list(CELL), found)}", flush=True)
    return all(outcomes.is_passed for outcomes in found.values())


def run_pairs(spark: str, environments: Sequence[Environment], results: Path) -> bool:
    """Print the table of pairs, those of `spark` if that is given; return whether all are as known."""
    found = {}
    for server in environments:
        wanted = [it for it in environments if it.spark.startswith(spark) or server.spark.startswith(spark)]
        clients = [it for it in wanted if it != server]  # the same version on both sides is a cell
        if not clients:
            continue
        runs = {it: f"client-{it.spark}-server-{server.name}" for it in clients}
        for environment in (server, *clients):
            _make(environment)
        with servers_of(server) as address:
            for client, name in runs.items():
                # What three tests of a pair say is enough: others would wait minutes for what never comes.
                run = Run(name, client, PAIR, ["--maxfail=3"], {ADDRESS: address})
                found[client.spark, server.spark] = run.outcomes(results)
    print(f"\n{table_of_pairs([it.spark for it in environments], found)}", flush=True)
    return all(_is_as_expected(*pair, outcomes) for pair, outcomes in found.items())


def _is_as_expected(client: str, server: str, outcomes: Outcomes) -> bool:
    """Whether a pair works, or says what versions.toml has of it and nothing else."""
    if not (fault := fault_of_server(client, server)):
        return outcomes.is_passed
    return bool(outcomes.faults) and all(fault in said for said in outcomes.faults)


def _make(environment: Environment) -> None:
    began = time.monotonic()
    environment.make()
    if (seconds := time.monotonic() - began) > 1:
        print(f"{environment.name} is made ({seconds:.0f} s)", flush=True)


def main() -> int:
    """0 where no test of any cell has failed, and each pair is as versions.toml has it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spark", default="", metavar="VERSION", help="as in 4.1; else all")
    parser.add_argument("--pandas", type=int, metavar="MAJOR", help="as in 2; else all")
    parser.add_argument("--part", choices=["cells", "pairs"], help="else both")
    options: Any = parser.parse_args()
    rows = spark_versions()
    majors = [options.pandas] if options.pandas else sorted({major for row in rows for major in row.pandas})
    every = [Environment(row.tested, major) for row, major in product(rows, majors) if major in row.pandas]
    chosen = [it for it in every if it.spark.startswith(options.spark)]
    if not chosen:
        parser.error(f"nothing is tested with Spark {options.spark} and pandas {options.pandas}")
    results = FOLDER / "results" / state_of_source()
    results.mkdir(parents=True, exist_ok=True)
    passed = []
    if options.part != "pairs":
        passed.append(run_cells(chosen, results))
    if options.part != "cells":
        passed.append(run_pairs(options.spark, [it for it in every if it.pandas == majors[-1]], results))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
