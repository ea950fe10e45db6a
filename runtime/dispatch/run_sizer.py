"""How much work to hand to a worker at a time, from how long the handler takes."""

# Outstanding work of a worker: one hop per run costs nothing beside it, and a worker's queue stays short.
BUDGET_NS = 4_000_000
MAX_RUN_RECORDS = 1024
MAX_RUN_BYTES = 1 << 20
# Until something was measured: a first run has two records then.
_FIRST_GUESS_NS = 1_000_000
# Of the newest measurement: the last three make up two thirds of the average.
_WEIGHT = 0.3
# The time from a worker's report of an outcome until it has the next records.
_ROUND_TRIP_NS = 1_000_000
# A hop is nothing beside a longer record, so its end isn't worth predicting.
_MAX_PREDICTED_NS = 100_000_000
# Times that vary by more than the lead (_LEAD_SECONDS) don't tell when to send the next record.
_MAX_DEVIATION_NS = 2_000_000


class RunSizer:
    """Measures the handler's time per record, as a moving average, and sizes runs by it."""

    def __init__(self) -> None:
        self.ns_per_record: float = _FIRST_GUESS_NS
        self._deviation_ns = 0.0

    def on_measured(self, count: int, handler_ns: int) -> None:
        """Take note that a worker ran `count` records in `handler_ns`."""
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
        """How many records half the budget takes: so the next run waits while this one is handled."""
        return max(1, min(MAX_RUN_RECORDS, int(BUDGET_NS / 2 / max(self.ns_per_record, 1))))

    def has_room(self, records_in_flight: int, seats: int = 1) -> bool:
        """Whether a worker that holds so many records, and may run `seats` at once, should get more.

        So many that it can run all its seats, and those too that get free before more could arrive.
        """
        ns = self.ns_per_record
        beside = seats + int((seats - 1) * _ROUND_TRIP_NS / max(ns, 1))
        return records_in_flight < beside or records_in_flight * ns < BUDGET_NS
