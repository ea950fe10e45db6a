"""Status of a run, as a command reads it from the run's admin server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.runtime.cli.running.admin_client import ask_admin, auth_headers, not_an_admin_server, problem_of
from headrace.runtime.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process. `running` names what its handler is in, `places` the partitions of that."""

    index: int
    pid: int | None
    state: str
    in_flight: int
    restarts: int
    running: str
    places: Sequence[str]


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition. `worker` is None where any may get its records, `reason` is empty without the token."""

    place: str
    state: str
    is_stuck: bool
    worker: int | None
    committed: int | None
    committable: int
    end: int
    lag: int
    in_flight: int
    reason: str


@dataclass(frozen=True, slots=True)
class TriggerRow:
    """A trigger in one replica. `url` is where it is called over HTTP; empty where it isn't."""

    replica: str
    title: str
    kind: str
    url: str
    workers: Sequence[WorkerRow]
    partitions: Sequence[PartitionRow]

    @property
    def lag(self) -> int:
        """Lag of all its partitions."""
        return sum(partition.lag for partition in self.partitions)

    @property
    def in_flight(self) -> int:
        """Records, or requests, at its workers."""
        return sum(worker.in_flight for worker in self.workers)

    @property
    def restarts(self) -> int:
        """Restarts of its workers."""
        return sum(worker.restarts for worker in self.workers)

    @property
    def ready(self) -> str:
        """How many of its workers are ready, of how many; one that shares another's workers has none."""
        return f"{sum(worker.state == 'ready' for worker in self.workers)}/{len(self.workers)}"

    def worker_of(self, partition: PartitionRow) -> str:
        """Return the worker that gets the partition's records, or those that have some now where any may."""
        if partition.worker is not None:
            return str(partition.worker)
        return " ".join(str(it.index) for it in self.workers if partition.place in it.places) or "any"


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Status of a run. `problems` says why it isn't ready, a line each."""

    functions: Sequence[str]
    problems: Sequence[str]
    triggers: Sequence[TriggerRow]

    @property
    def workers(self) -> Iterator[tuple[TriggerRow, WorkerRow]]:
        """Every worker, with its trigger."""
        return ((trigger, worker) for trigger in self.triggers for worker in trigger.workers)

    @property
    def partitions(self) -> Iterator[tuple[TriggerRow, PartitionRow]]:
        """Every partition, with its trigger."""
        return ((trigger, partition) for trigger in self.triggers for partition in trigger.partitions)


async def ask_json(admin: str, token: str, path: str) -> Any:
    """Return what the admin server answers to a GET. Raises HeadraceError."""
    status, answer = await ask_admin(admin, "GET", path, auth_headers(admin, token))
    if status == 200:
        return answer
    problem = problem_of(answer)
    raise HeadraceError(f"{admin}: {problem}") if problem else not_an_admin_server(admin)


def read_status(admin: str, answer: Any) -> RunStatus:
    """Read the body of /api/status. Raises HeadraceError where it is something else."""
    try:
        # Anything may answer at a mistyped address: another form is told as such, without a traceback.
        replicas = answer["replicas"]
        problems = [(it["name"], str(line)) for it in replicas for line in it["problems"]]
        return RunStatus(
            list(map(str, answer["functions"])),
            # A run has no replica until its embedded servers are there.
            [f"{name}: {line}" if name else line for name, line in problems] if replicas else ["starting"],
            [_trigger(it["name"], row) for it in replicas for row in it["triggers"]],
        )
    except (KeyError, TypeError, AttributeError):
        raise not_an_admin_server(admin) from None


def _trigger(replica: str, row: Any) -> TriggerRow:
    return TriggerRow(
        replica=str(replica),
        title=f"{row['function']}/{row['name']}",
        kind=str(row["kind"]),
        url=str(row.get("url") or ""),
        workers=list(map(_worker, row["workers"])),
        partitions=list(map(_partition, row["partitions"])),
    )


def _worker(row: Any) -> WorkerRow:
    return WorkerRow(
        index=_int(row["index"]),
        pid=_int_or_none(row["pid"]),
        state=str(row["state"]),
        in_flight=_int(row["inFlight"]),
        restarts=_int(row["restarts"]),
        running=str(row["running"] or ""),
        places=list(map(_place, row["runningRecords"])),
    )


def _partition(row: Any) -> PartitionRow:
    return PartitionRow(
        place=_place(row),
        state=str(row["state"]),
        is_stuck=bool(row["isStuck"]),
        worker=_int_or_none(row["worker"]),
        committed=_int_or_none(row["committed"]),
        committable=_int(row["committable"]),
        end=_int(row["end"]),
        lag=_int(row["lag"]),
        in_flight=_int(row["inFlight"]),
        reason=str(row["reason"] or ""),
    )


def _int(answer: Any) -> int:
    if type(answer) is not int:  # isinstance would take true for a number
        raise TypeError(answer)
    return answer


def _int_or_none(answer: Any) -> int | None:
    return None if answer is None else _int(answer)


def _place(row: Any) -> str:
    return f"{row['topic']}/{row['partition']}"
