"""Firings: each moment once, whatever happens to clocks: triggers/cron."""

from mutant import Mutant

_FIELDS = "triggers/cron/expression.py"
_SCHEDULE = "triggers/cron/schedule.py"
_TIMETABLE = "triggers/cron/timetable.py"
_TABLE = "tests/triggers/cron/test_nuclios_schedules.py::test_a_schedule_fires_when_nuclio_says_or_as_noted"
_TESTS = "tests/triggers/cron/test_cron_schedule.py"
_TRIGGER = "tests/triggers/cron/test_cron_trigger.py"

MUTANTS = (
    Mutant(
        "repeats-after-a-step",
        "firings",
        "a clock that is set back a little has the same moment fire again",
        _TIMETABLE,
        "        if wall < self._seen - SMALL_STEP_SECONDS:\n",
        "        if wall < self._seen:\n",
        f"{_TESTS}::test_what_has_fired_does_not_fire_again_after_a_small_step_back",
    ),
    Mutant(
        "small-steps-add-up",
        "L9",
        "a clock that is set back by hours in small steps has nothing fire for hours",
        _TIMETABLE,
        "self._seen = max(self._seen, wall)",
        "self._seen = wall",
        f"{_TESTS}::test_small_steps_back_that_add_up_are_a_large_one",
    ),
    Mutant(
        "twice-in-autumn",
        "firings",
        "where the clocks are put back, what has fired in the first of two equal hours comes again",
        _SCHEDULE,
        "        while found <= moment:",
        "        while found == -math.inf:",
        f"{_TESTS}::test_who_begins_in_the_second_of_two_equal_hours_waits_for_tomorrow",
    ),
    Mutant(
        "star-with-a-step",
        "firings",
        "a day of the month with a step and a weekday have to fit both, where in Nuclio either does",
        _FIELDS,
        "span in _STARS and int(step or 1) == 1 for",
        "span in _STARS for",
        _TABLE,
    ),
    Mutant(
        "each-second",
        "firings",
        "what fires once a minute in Nuclio fires every second",
        _FIELDS,
        'if not has_second or written[0] == "*":',
        "if not has_second:",
        _TABLE,
    ),
    Mutant(
        "first-of-the-missed",
        "firings",
        "after a step forward the firing is of the first moment that was missed, and not of the last",
        _TIMETABLE,
        "        last, self._next = self._schedule.last(first, wall), self._schedule.after(wall)\n",
        "        last, self._next = first, self._schedule.after(wall)\n",
        f"{_TESTS}::test_of_what_a_step_forward_leaps_over_the_last_one_counts",
    ),
    Mutant(
        "off-its-beat",
        "firings",
        "the next firing of an interval is counted from when the last one was noticed",
        _TIMETABLE,
        "        if self._number < first:\n            return None\n        late",
        "        if self._number < first:\n            return None\n"
        "        self._start, self._number = now.monotonic - self._interval / 1e6, 1\n        late",
        f"{_TESTS}::test_the_nth_firing_of_an_interval_is_n_intervals_after_the_start",
    ),
    Mutant(
        "fires-over-a-retry",
        "firings",
        "a firing that waits for its next attempt is forgotten for the one that comes meanwhile",
        "triggers/cron/firings.py",
        "(lane for lane in self._lanes if lane.record is None)",
        "(lane for lane in self._lanes if not lane.in_flight_count)",
        f"{_TRIGGER}::test_what_comes_while_one_waits_for_its_next_attempt_is_skipped",
        is_quick=False,
    ),
    Mutant(
        "each-replica-fires",
        "firings",
        "each replica of a machine fires",
        "triggers/cron/trigger.py",
        "self._is_idle = spec.replica_index not in {None, 0}",
        "self._is_idle = spec.replica_index is None and spec.num_workers == 0",
        f"{_TRIGGER}::test_of_the_replicas_on_a_machine_the_first_one_fires",
        is_quick=False,
    ),
)
