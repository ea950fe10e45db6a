"""How much work to hand to a worker at a time, from how long the handler takes."""

# Enough that one hop per run costs nothing beside the handlers, little enough that a worker's queue is short.
BUDGET_NS = 4_000_000
MAX_RUN_RECORDS = 1024
MAX_RUN_BYTES = 1 << 20
_FIRST_GUESS_NS = 1_000_000
_WEIGHT = 0.3
# From what a worker says to what it is given for that.
_ROUND_TRIP_NS = 1_000_000
_MAX_PREDICTED_NS = 100_000_000  # a hop is nothing beside more
_MAX_DEVIATION_NS = 2_000_000


class RunSizer:
    """The handler's time per record, measured, and what follows from it."""

    def __init__(self) -> None:
        self.ns_per_record: float = _FIRST_GUESS_NS
        self._deviation_ns = 0.0

    def on_measured(self, count: int, handler_ns: int) -> None:
        """A worker ran `count` records in `handler_ns`."""
        if count:
            error_ns = handler_ns / count - self.ns_per_record
            self.ns_per_record += _WEIGHT * error_ns
            self._deviation_ns += _WEIGHT * (abs(error_ns) - self._deviation_ns)

    @property
    def is_predictable(self) -> bool:
        """Whether the next record will take as long as the last ones did, and no longer than some hops."""
        return self.ns_per_record < _MAX_PREDICTED_NS and self._deviation_ns < _MAX_DEVIATION_NS

    @property
    def run_length(self) -> int:
        """How many records half a budget takes: so that the next run waits while this one is handled."""
        return max(1, min(MAX_RUN_RECORDS, int(BUDGET_NS / 2 / max(self.ns_per_record, 1))))

    def has_room(self, records_in_flight: int, seats: int = 1) -> bool:
        """Whether a worker that holds so many records, and may run `seats` at once, should get more.

        As many as it runs, and what it will have ended before it hears of more.
        """
        ns = self.ns_per_record
        beside = seats + int((seats - 1) * _ROUND_TRIP_NS / max(ns, 1))
        return records_in_flight < beside or records_in_flight * ns < BUDGET_NS
