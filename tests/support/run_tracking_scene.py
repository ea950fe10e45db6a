"""functions/run_tracking from its clients to its database: topics, groups and ports of one's own."""

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml
from broker import Broker
from replica import QUICK_GROUP, Replica, replica, wait_until
from run_ledgers import RunLedger, Stored
from topic_ends import is_committed_to_its_end

from headrace.functions.database.engine import open_engine, read_only
from headrace.functions.run_tracking.store import tables
from headrace.runtime.embedded.ports import free_port

FUNCTION = Path(__file__).parents[2] / "functions" / "run_tracking" / "function.yaml"
PARTS = ("ingestion", "control", "frontier", "backend")


class Scene:
    """Without Spark: summaries have tests of their own."""

    def __init__(self, broker: Broker, url: str, folder: Path, partitions: int = 6) -> None:
        self.broker, self.database, self.folder = broker, url, folder
        self.name = f"runs-{uuid.uuid4().hex[:8]}"
        self.ingestion, self.control = f"{self.name}.data-ingestion", f"{self.name}.control-events"
        for topic, count in ((self.ingestion, partitions), (self.control, 1)):
            broker.create(topic, count)
            broker.create(f"{topic}.dlq", 1)
        self.frontier_port, self.backend_port = free_port(), free_port()
        self.frontier = f"http://127.0.0.1:{self.frontier_port}"
        self.backend = f"http://127.0.0.1:{self.backend_port}"
        folder.mkdir(exist_ok=True, parents=True)
        self.blobs = folder / "blobs"

    def function(
        self, *options: str, name: str = "", parts: Iterable[str] = PARTS, handler: str = ""
    ) -> AbstractContextManager[Replica]:
        """Those parts of it, as one replica; `handler` is the source of one that stands in for its own."""
        own = self.folder / f"f{name}"
        own.mkdir(exist_ok=True)
        document = yaml.safe_load(FUNCTION.read_text())
        del document["spec"]["spark"]
        document["metadata"]["name"] += name
        triggers = document["spec"]["triggers"]
        document["spec"]["triggers"] = {part: triggers[part] for part in parts}
        for part, group in (("ingestion", "ingestion-workers"), ("control", "control-workers")):
            triggers[part]["attributes"] |= {"consumerGroup": f"{self.name}.{group}", **QUICK_GROUP}
        if handler:
            (own / "altered.py").write_text(handler)
            document["spec"]["handler"] = "altered:handler"
        (own / "function.yaml").write_text(yaml.safe_dump(document))
        return replica(own, *options, name=name, variables=self.variables(name))

    def variables(self, name: str = "") -> dict[str, str]:
        """Of the function's environment."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap,
            "KAFKA_DATA_INGESTION_TOPIC": self.ingestion,
            "KAFKA_CONTROL_EVENTS_TOPIC": self.control,
            "DATABASE_URL": self.database,
            "BLOBS": str(self.blobs),
            "SUMMARIES": str(self.folder / "summaries"),
            "FRONTIER_PORT": str(self.frontier_port),
            "FRONTIER_TIMEOUT_SECONDS": "5",
            "METRICS_PORT": "0",
            "BACKEND_PORT": str(self.backend_port),
        }

    def is_idle(self) -> bool:
        """Whether both groups have done all that was there when this was asked."""
        groups = {self.ingestion: "ingestion-workers", self.control: "control-workers"}
        return all(
            is_committed_to_its_end(self.broker, topic, f"{self.name}.{group}")
            for topic, group in groups.items()
        )

    # ---- what is stored

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        engine = read_only(open_engine(self.database))
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def run_ids(self) -> set[str]:
        with self.connection() as connection:
            return set(connection.execute(sa.select(tables.RUNS.c.id)).scalars())

    def finished(self) -> set[str]:
        """None before there are tables."""
        with self.connection() as connection:
            if not sa.inspect(connection).has_table(tables.TOMBSTONES.name):
                return set()
            ended = sa.select(tables.RUNS.c.id).where(~tables.RUNS.c.is_active)
            return set(connection.execute(ended).scalars())

    def wait_finished(self, ledgers: Iterable[RunLedger], about: Replica, seconds: float = 300) -> None:
        """Until the last item of each is stored."""
        wanted = {ledger.run_id for ledger in ledgers}
        wait_until(lambda: self.finished() >= wanted, seconds, about=about)

    def stored(self, run_id: str) -> Stored:
        """As the database and the store of blobs have it."""
        t = tables
        with self.connection() as connection:

            def rows(table: sa.Table, *columns: str) -> list[Any]:
                query = sa.select(*(table.c[name] for name in columns)).where(table.c.run_id == run_id)
                ordered = query.order_by(*(it for it in table.primary_key))
                return list(connection.execute(ordered))

            run = connection.execute(sa.select(t.RUNS).where(t.RUNS.c.id == run_id)).mappings().one()
            experiment = sa.select(t.EXPERIMENTS.c.name).where(t.EXPERIMENTS.c.id == run["experiment_id"])
            tags = sa.select(t.TAGS.c.name).join(t.RUN_TAGS, t.RUN_TAGS.c.tag_id == t.TAGS.c.id)
            attrs = rows(t.RUN_ATTRS, "attrs")
            return Stored(
                name=run["name"],
                experiment=connection.execute(experiment).scalar(),
                is_active=run["is_active"],
                attrs=json.loads(attrs[0][0]) if attrs else {},
                metrics={
                    (c, n, s): v for c, n, s, v in rows(t.SEQUENCES, "context_id", "name", "step", "value")
                },
                lines=[line for (line,) in rows(t.TERMINAL_LINES, "line")],
                records=[json.loads(record)["message"] for (record,) in rows(t.LOG_RECORDS, "record")],
                tags=set(connection.execute(tags.where(t.RUN_TAGS.c.run_id == run_id)).scalars()),
                artifacts={path: self.blob(key) for path, key in rows(t.BLOBS, "artifact_path", "blob_key")},
            )

    def blob(self, key: str) -> bytes:
        """Nothing where it isn't there."""
        path = self.blobs / key
        return path.read_bytes() if path.is_file() else b""

    def differences(self, ledgers: Iterable[RunLedger]) -> list[str]:
        """Fields of runs that are not stored as they were said."""
        found = []
        for ledger in ledgers:
            stored = self.stored(ledger.run_id)
            for name, said in vars(ledger.expected).items():
                if (is_there := getattr(stored, name)) != said:
                    found.append(
                        f"{ledger.run_id}: {name} is {str(is_there)[:300]}, said was {str(said)[:300]}"
                    )
        return found
