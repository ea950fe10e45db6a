"""The attributes of a cron trigger: Nuclio's, `timeZone`, `catchUp` and `onFailure`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge
from pydantic import AfterValidator

from headrace.runtime.config.delivery_policy import FailurePolicy
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.declare import Rule, Settings, section, setting
from headrace.runtime.settings.types import CHOICE, Anything, Count, Seconds, Text, spelled
from headrace.triggers.cron import differences
from headrace.triggers.cron.expression import ScheduleError
from headrace.triggers.cron.schedule import Schedule, zone_of

SHORTEST_INTERVAL_SECONDS = 0.01
_LARGEST_HEADER = 2**63  # what JSON's readers agree on
_POLICIES = {"forbid": "Forbid", "allow": "Allow", "replace": "Replace"}


def _schedule(text: str) -> str:
    if text:
        Schedule(text)
    return text


def _zone(name: str) -> str:
    zone_of(name)
    return name


def _is_header(value: object) -> bool:
    # A bool is an int to Python, and none to the readers of a header.
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_HEADER
    return is_number or isinstance(value, str)


def _headers(written: object) -> object:
    pairs = written.items() if isinstance(written, dict) else [(None, None)]
    if not all(isinstance(name, str) and _is_header(value) for name, value in pairs):
        raise ValueError("expected a mapping from names to strings or ints")
    return written


class EventSettings(Settings):
    """`event`: what the handler gets at each firing, beside its time."""

    body: Text = setting("body", "", effect="The bytes that event.body has.")
    headers: Annotated[Anything, AfterValidator(_headers)] = setting(
        "headers", {}, effect="What event.headers has: strings and ints."
    )
    path: Text = setting("path", "", effect="What event.path says.")
    method: Text = setting("method", "", effect="What event.method says.")


class CronFailureSettings(Settings):
    """`onFailure`: what happens to a firing whose handler failed."""

    max_attempts: Annotated[Count, Ge(0)] = setting(
        "maxAttempts",
        1,
        unit="deliveries",
        effect="1: a firing that failed isn't tried again. Too high, and attempts at one take the place of"
        " the next ones; 0 tries for ever.",
    )
    backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "backoff",
        1.0,
        unit="seconds",
        effect="Too low spends all attempts during one outage, too high makes the next firings be skipped; it"
        " doubles with each attempt.",
    )
    max_backoff_seconds: Annotated[Seconds, Ge(0)] = setting(
        "maxBackoff",
        30.0,
        unit="seconds",
        effect="Too low hammers a service that is down, too high notices late that it is back.",
    )

    @property
    def policy(self) -> FailurePolicy:
        """The policy of retries by which firings go."""
        return FailurePolicy(self.max_attempts, self.backoff_seconds, self.max_backoff_seconds, then="report")


def _one_of_two(settings: "CronSettings", _: TriggerFields) -> str:
    """must stand there, or interval, and not both."""
    if settings.schedule and settings.interval_seconds:
        return "stands beside interval; a trigger goes by one of the two, remove the other"
    if not settings.schedule and not settings.interval_seconds:
        return "is required, or interval: say when to fire, such as 0 * * * * or interval: 1m"
    return ""


def _ever_comes(settings: "CronSettings", _: TriggerFields) -> str:
    """has moments in timeZone: where summer time begins, an hour is left out."""
    # The text alone was parsed before, in UTC: in its zone an hour may never come.
    try:
        if settings.schedule:
            Schedule(settings.schedule, zone_of(settings.time_zone))
    except ScheduleError as error:
        return str(error)
    return ""


def _as_second(settings: "CronSettings", _: TriggerFields) -> str:
    """a * as the second of 6 fields is noticed: it is second 0."""
    return differences.second_is_zero(settings.schedule)


def _blanks(settings: "CronSettings", _: TriggerFields) -> str:
    """blanks by which Nuclio reads another schedule are noticed."""
    return differences.blanks_count(settings.schedule)


def _summer_time(settings: "CronSettings", _: TriggerFields) -> str:
    """5 fields with an hour that timeZone's clocks leap over or show twice are noticed."""
    try:
        schedule = Schedule(settings.schedule, zone_of(settings.time_zone)) if settings.schedule else None
    except ScheduleError:  # which another rule says
        return ""
    return differences.clocks_change(schedule) if schedule else ""


def _one_is_enough(settings: "CronSettings", trigger: TriggerFields) -> str:
    """Forbid with more than one worker is noticed."""
    if settings.concurrency_policy != "Forbid" or trigger.worker_count == 1:
        return ""
    return f"Forbid runs one firing at a time, so {trigger.worker_count - 1} of the workers never have any"


class CronSettings(Settings):
    """The settings of one cron trigger."""

    schedule: Annotated[Text, AfterValidator(_schedule)] = setting(
        "schedule",
        "",
        absent="`interval` counts",
        example="0 * * * *",
        effect="When to fire, by the wall clock, as Nuclio's parser reads it. 5 fields: minute hour day month"
        " weekday; 6 fields: the same with second first; or a name such as @daily.",
    )
    interval_seconds: Annotated[Seconds, Ge(SHORTEST_INTERVAL_SECONDS)] = setting(
        "interval",
        0.0,
        unit="seconds",
        absent="`schedule` counts",
        in_examples=False,
        effect="How long from one firing to the next, whatever the wall clock does; shorter than the handler"
        " takes, firings are skipped.",
    )
    time_zone: Annotated[Text, AfterValidator(_zone)] = setting(
        "timeZone",
        "UTC",
        effect="Whose wall clock schedule means: an IANA name, such as Europe/Berlin.",
    )
    event: EventSettings = section("event", EventSettings, effect="What the handler gets.")
    concurrency_policy: Annotated[Literal["Forbid", "Allow", "Replace"], spelled(_POLICIES), CHOICE] = (
        setting(
            "concurrencyPolicy",
            "Forbid",
            built_values=("Forbid", "Allow"),
            effect="Forbid skips a firing while the one before runs or is being tried again; Allow lets as"
            " many run at a time as there are workers.",
        )
    )
    catch_up: Annotated[Literal["once", "skip"], spelled(), CHOICE] = setting(
        "catchUp",
        "once",
        effect="After a clock step or a sleep of the machine that firings were missed by: once fires once,"
        " late; skip waits for the next one.",
    )
    on_failure: CronFailureSettings = section(
        "onFailure", CronFailureSettings, effect="Whether a firing whose handler failed is tried again."
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("schedule", ("schedule", "interval_seconds"), _one_of_two),
        Rule("schedule", ("schedule", "time_zone"), _ever_comes),
        Rule("schedule", ("schedule",), _as_second, is_error=False),
        Rule("schedule", ("schedule",), _blanks, is_error=False),
        Rule("schedule", ("schedule", "time_zone"), _summer_time, is_error=False),
        Rule(
            "concurrency_policy",
            ("concurrency_policy", "trigger.num_workers", "trigger.max_workers"),
            _one_is_enough,
            is_error=False,
        ),
    )
    ignored: ClassVar[Mapping[str, str]] = {
        "jobBackoffLimit": "a setting of the Kubernetes jobs that Nuclio makes; here onFailure counts"
    }
