"""40 schedules, as Nuclio reads them and as they are read here; where that differs, a line says so.

What Nuclio does is the output of tests/storm/nuclios_schedules.go, which runs its parser. `make schedules`
compares thousands.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
import yaml

from headrace.runtime.config.function_reader import load_function
from headrace.triggers.cron.expression import ScheduleError
from headrace.triggers.cron.schedule import Schedule

FRIDAY = "2026-01-02T12:00:07+00:00"
SPRING = "2026-03-29T00:00:00+01:00"
AUTUMN = "2026-10-25T00:00:00+02:00"


class Row(NamedTuple):
    """The next three moments: Nuclio's, and ours where they are others. From FRIDAY in UTC, or in Berlin."""

    text: str
    there: str
    here: str = ""
    start: str = FRIDAY

    def __str__(self) -> str:
        return f"{self.text} from {self.start[:10]}"

    @property
    def zone(self) -> str:
        return "UTC" if self.start == FRIDAY else "Europe/Berlin"


ROWS = [
    Row("30 2 * * *", "2026-01-03T02:30:00 2026-01-04T02:30:00 2026-01-05T02:30:00"),
    Row("*/5 * * * *", "2026-01-02T12:05:00 2026-01-02T12:10:00 2026-01-02T12:15:00"),
    Row("0 30 2 * * *", "2026-01-03T02:30:00 2026-01-04T02:30:00 2026-01-05T02:30:00"),
    Row("* * * * *", "2026-01-02T12:01:00 2026-01-02T12:02:00 2026-01-02T12:03:00"),
    Row("* * * * * *", "2026-01-02T12:01:00 2026-01-02T12:02:00 2026-01-02T12:03:00"),
    Row("*/1 * * * * *", "2026-01-02T12:00:08 2026-01-02T12:00:09 2026-01-02T12:00:10"),
    Row("? * * * * *", "2026-01-02T12:00:08 2026-01-02T12:00:09 2026-01-02T12:00:10"),
    Row(
        "*  * * * *",
        "2026-01-02T13:00:00 2026-01-02T14:00:00 2026-01-02T15:00:00",
        "2026-01-02T12:01:00 2026-01-02T12:02:00 2026-01-02T12:03:00",
    ),
    Row(
        "* * * * * ",
        "2026-01-02T13:00:00 2026-01-02T14:00:00 2026-01-02T15:00:00",
        "2026-01-02T12:01:00 2026-01-02T12:02:00 2026-01-02T12:03:00",
    ),
    Row("0 0 */2 * 5", "2026-01-03T00:00:00 2026-01-05T00:00:00 2026-01-07T00:00:00"),
    Row("0 0 13 * 5", "2026-01-09T00:00:00 2026-01-13T00:00:00 2026-01-16T00:00:00"),
    Row("0 0 1-31 * 5", "2026-01-03T00:00:00 2026-01-04T00:00:00 2026-01-05T00:00:00"),
    Row("0 0 * * 5", "2026-01-09T00:00:00 2026-01-16T00:00:00 2026-01-23T00:00:00"),
    Row("0 0 ? * 5", "2026-01-09T00:00:00 2026-01-16T00:00:00 2026-01-23T00:00:00"),
    Row("0 0 */1 * 5", "2026-01-09T00:00:00 2026-01-16T00:00:00 2026-01-23T00:00:00"),
    Row("0 0 1/3 * *", "2026-01-04T00:00:00 2026-01-07T00:00:00 2026-01-10T00:00:00"),
    Row("3-3/1 * * * *", "2026-01-02T12:03:00 2026-01-02T13:03:00 2026-01-02T14:03:00"),
    Row("10/20 * * * *", "2026-01-02T12:10:00 2026-01-02T12:30:00 2026-01-02T12:50:00"),
    Row("5-50/15 * * * *", "2026-01-02T12:05:00 2026-01-02T12:20:00 2026-01-02T12:35:00"),
    Row("?/20 * * * *", "2026-01-02T12:20:00 2026-01-02T12:40:00 2026-01-02T13:00:00"),
    Row("31 4 */3 * *", "2026-01-04T04:31:00 2026-01-07T04:31:00 2026-01-10T04:31:00"),
    Row("0 0 31 4 */3", "2026-04-01T00:00:00 2026-04-04T00:00:00 2026-04-05T00:00:00"),
    Row("0 0 * * 5/1", "2026-01-03T00:00:00 2026-01-09T00:00:00 2026-01-10T00:00:00"),
    Row("0 0 * * MON-fri/2", "2026-01-05T00:00:00 2026-01-07T00:00:00 2026-01-09T00:00:00"),
    Row("0 0 1 feb,OCT *", "2026-02-01T00:00:00 2026-10-01T00:00:00 2027-02-01T00:00:00"),
    Row("1,,2 * * * *", "2026-01-02T12:01:00 2026-01-02T12:02:00 2026-01-02T13:01:00"),
    Row("0 0 29 2 *", "2028-02-29T00:00:00 2032-02-29T00:00:00 2036-02-29T00:00:00"),
    Row("@hourly", "2026-01-02T13:00:00 2026-01-02T14:00:00 2026-01-02T15:00:00"),
    Row("@daily", "2026-01-03T00:00:00 2026-01-04T00:00:00 2026-01-05T00:00:00"),
    Row("@weekly", "2026-01-04T00:00:00 2026-01-11T00:00:00 2026-01-18T00:00:00"),
    Row("@every 90s", "2026-01-02T12:01:37 2026-01-02T12:03:07 2026-01-02T12:04:37", "refused"),
    Row(
        "CRON_TZ=Asia/Tokyo 0 9 * * *",
        "2026-01-03T00:00:00 2026-01-04T00:00:00 2026-01-05T00:00:00",
        "refused",
    ),
    Row("0 0 31 4 *", "never", "refused"),
    Row("0 0 * * 7", "refused", "2026-01-04T00:00:00 2026-01-11T00:00:00 2026-01-18T00:00:00"),
    Row("0 0 L * *", "refused", "2026-01-31T00:00:00 2026-02-28T00:00:00 2026-03-31T00:00:00"),
    Row(
        "30 2 * * *",
        "2026-03-30T02:30:00+02:00 2026-03-31T02:30:00+02:00 2026-04-01T02:30:00+02:00",
        "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00 2026-03-31T02:30:00+02:00",
        start=SPRING,
    ),
    Row(
        "0 30 2 * * *",
        "2026-03-30T02:30:00+02:00 2026-03-31T02:30:00+02:00 2026-04-01T02:30:00+02:00",
        start=SPRING,
    ),
    Row(
        "*/30 2 * * *",
        "2026-03-30T02:00:00+02:00 2026-03-30T02:30:00+02:00 2026-03-31T02:00:00+02:00",
        start=SPRING,
    ),
    Row(
        "30 2 * * *",
        "2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00",
        "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00 2026-10-27T02:30:00+01:00",
        start=AUTUMN,
    ),
    Row(
        "0 30 2 * * *",
        "2026-10-25T02:30:00+02:00 2026-10-25T02:30:00+01:00 2026-10-26T02:30:00+01:00",
        start=AUTUMN,
    ),
]


def moments(row: Row) -> str:
    zone, moment = ZoneInfo(row.zone), datetime.fromisoformat(row.start).timestamp()
    try:
        schedule = Schedule(row.text, zone)
    except ScheduleError:
        return "refused"
    shown = []
    for _ in range(3):
        moment = schedule.after(moment)
        shown.append(datetime.fromtimestamp(moment, zone).isoformat().removesuffix("+00:00"))
    return " ".join(shown)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_schedule_fires_when_nuclio_says_or_as_noted(row: Row) -> None:
    assert moments(row) == (row.here or row.there)


def test_there_are_forty() -> None:
    assert len(ROWS) == 40


def notices(folder: Path, schedule: str, zone: str = "UTC") -> list[str]:
    attributes = {"schedule": schedule, "timeZone": zone}
    trigger = {"kind": "cron", "attributes": attributes}
    function = {"metadata": {"name": "f"}, "spec": {"handler": "main:handler", "triggers": {"t": trigger}}}
    (folder / "function.yaml").write_text(yaml.safe_dump(function))
    start = "spec.triggers.t.attributes.schedule: "
    said = [str(notice) for notice in load_function(folder).notices]
    return [line.partition(start)[2] for line in said if start in line]


BOTH_FIRE = [row for row in ROWS if "refused" not in {row.there, row.here}]


@pytest.mark.parametrize("row", BOTH_FIRE, ids=str)
def test_a_line_says_what_differs_from_nuclio_or_may_surprise(tmp_path: Path, row: Row) -> None:
    is_surprise = row.text == "* * * * * *"  # equal, and not what other parsers say
    assert len(notices(tmp_path, row.text, row.zone)) == (bool(row.here) or is_surprise)


@pytest.mark.parametrize(
    ("text", "zone", "says"),
    [
        ("* * * * * *", "UTC", "a * as the second is second 0, as in Nuclio; */1 is every second"),
        ("*  * * * *", "UTC", "its first * is 0 in Nuclio, for the blanks around it, and * here; write one"),
        (
            " * * * * * *",
            "UTC",
            "its first * is * in Nuclio, for the blanks around it, and 0 here; write one",
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "at a time that clocks leap over, or show twice, it fires once; Nuclio",
        ),
        (
            "0 2 29 3 *",
            "Europe/Berlin",
            "at a time that clocks leap over, or show twice, it fires once; Nuclio",
        ),
    ],
)
def test_such_a_line_is_a_notice_of_validate(tmp_path: Path, text: str, zone: str, says: str) -> None:
    assert notices(tmp_path, text, zone)[0].startswith(says)


def test_no_line_says_what_never_differs(tmp_path: Path) -> None:
    for text in ("30 3 * * *", "30 2 * * 1-5", "0 30 2 * * *", "*/5 * * * *", "@daily"):
        assert not notices(tmp_path, text, "Europe/Berlin")
    assert not notices(tmp_path, "30 2 * * *", "Asia/Kathmandu")
