"""When a schedule and an interval fire, by clocks that are numbers."""

import contextlib
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from headrace.triggers.cron.expression import NAMES, ScheduleError
from headrace.triggers.cron.schedule import Schedule, zone_of
from headrace.triggers.cron.timetable import (
    SMALL_STEP_SECONDS,
    ClockReading,
    Due,
    IntervalTimetable,
    WallClockTimetable,
)

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2026, 3, 29, 0, 0, tzinfo=BERLIN).timestamp()  # 02:00 becomes 03:00
AUTUMN = datetime(2026, 10, 25, 0, 0, tzinfo=BERLIN).timestamp()  # 03:00 becomes 02:00
NOON = 1_767_355_200.0  # 2026-01-02T12:00:00Z
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kathmandu"])


def seconds(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def local(moment: float) -> str:
    return datetime.fromtimestamp(moment, BERLIN).isoformat()


@pytest.mark.parametrize(
    ("text", "comes"),
    [
        ("*/5 * * * *", "2026-01-02T10:05:00"),
        ("30 * * * * *", "2026-01-02T10:00:30"),
        ("0 9 * * MON-FRI", "2026-01-05T09:00:00"),
        ("0 0 L * *", "2026-01-31T00:00:00"),
        ("0 0 LW * *", "2026-01-30T00:00:00"),
        ("0 0 * * 6L", "2026-01-31T00:00:00"),
        ("0 0 * * MON#2", "2026-01-12T00:00:00"),
        ("0 0 * * 7", "2026-01-04T00:00:00"),
        ("0 0 ? * SUN", "2026-01-04T00:00:00"),
        ("0 0 0 13 * ?", "2026-01-13T00:00:00"),
        ("@hourly", "2026-01-02T11:00:00"),
        ("@Daily", "2026-01-03T00:00:00"),
        ("@weekly", "2026-01-04T00:00:00"),
        ("@monthly", "2026-02-01T00:00:00"),
        ("@yearly", "2027-01-01T00:00:00"),
    ],
)
def test_a_schedule_comes_next_at(text: str, comes: str) -> None:
    friday = seconds("2026-01-02T10:00:07.25")
    assert Schedule(text, BERLIN).after(friday) == seconds(comes)


@pytest.mark.parametrize("text", NAMES)
def test_every_name_is_a_schedule(text: str) -> None:
    assert Schedule(text).after(0) > 0


@pytest.mark.parametrize(
    ("text", "around", "comes"),
    [
        # What the clock leaps over fires right behind, once, whatever stood there.
        ("30 2 * * *", SPRING, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        ("0,30 2 * * *", SPRING, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        ("0 2-3 * * *", SPRING, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]),
        # With seconds, as with a star, it is the clock's face that counts.
        ("0 30 2 * * *", SPRING, ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]),
        # An hour that comes twice fires once.
        ("30 2 * * *", AUTUMN, ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        ("0 30 2 * * *", AUTUMN, ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]),
        ("@hourly", AUTUMN + 2 * 3600 - 1, ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]),
    ],
)
def test_where_summer_time_begins_and_ends(text: str, around: float, comes: list[str]) -> None:
    schedule = Schedule(text, BERLIN)
    first = schedule.after(around)
    assert [local(first), local(schedule.after(first))] == comes


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("Asia/Beirut", "2026-03-29"),  # leaves midnight out
        ("Asia/Beirut", "2026-10-25"),  # 23:00 to 24:00 twice
        ("America/Havana", "2026-11-01"),  # midnight twice
        ("Australia/Lord_Howe", "2026-04-05"),  # half an hour twice
        ("Australia/Lord_Howe", "2026-10-04"),
        ("Pacific/Chatham", "2026-04-05"),  # 2:45 to 3:45 twice
        ("Pacific/Chatham", "2026-09-27"),  # leaves them out
    ],
)
def test_with_seconds_it_fires_whenever_the_clock_shows_it(zone: str, day: str) -> None:
    schedule, moment = Schedule(f"0 */10 0-2,23 {int(day[-2:])} * *", zone_of(zone)), seconds(day) - 86400
    until = moment + 4 * 86400
    faces = (datetime.fromtimestamp(at, zone_of(zone)) for at in range(int(moment), int(until), 300))
    of_day = (it for it in faces if it.day == int(day[-2:]) and it.minute % 10 == 0)
    expected = [it.isoformat() for it in of_day if it.hour in {0, 1, 2, 23}]
    fired = []
    while (moment := schedule.after(moment)) < until:
        fired.append(datetime.fromtimestamp(moment, zone_of(zone)).isoformat())
    assert fired == expected


def test_who_begins_in_the_second_of_two_equal_hours_waits_for_tomorrow() -> None:
    second_hour = AUTUMN + 3 * 3600 + 600
    assert local(second_hour) == "2026-10-25T02:10:00+01:00"
    assert local(Schedule("0-59/10 2 * * *", BERLIN).after(second_hour)) == "2026-10-26T02:00:00+01:00"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("* * * *", "has 4 fields; expected 5 fields"),
        ("* * * * * * *", "has 7 fields; expected 5 fields"),
        ("61 * * * *", "its minute has '61'; expected 0 to 59"),
        ("60 * * * * *", "its second has '60'; expected 0 to 59"),
        ("* 24 * * *", "its hour has '24'; expected 0 to 23"),
        ("* * 0 * *", "its day has '0'; expected 1 to 31, L, LW"),
        ("* * * JAM *", "its month has 'JAM'; expected 1 to 12 or JAN to DEC"),
        ("* * * * FOO", "its weekday has 'FOO'; expected 0 to 6 or SUN to SAT"),
        ("* 5-2 * * *", "its hour has '5-2', which ends before it begins; expected"),
        ("* */0 * * *", r"its hour has '\*/0', whose step is no number from 1 on; expected"),
        ("* 1/2/3 * * *", "its hour has '1/2/3', whose step is no number"),
        ("*-5 * * * *", r"its minute has '\*-5'; expected 0 to 59"),
        (", * * * *", "its minute has ','; expected"),
        ("\u0661 * * * *", "its minute has '\u0661'; expected"),
        ("0 0 * * 6#6", "its weekday has '6#6'; expected"),
        ("0 0 30 2 *", "no day is like that"),
        ("0 0 31 4,6 *", "no day is like that"),
        ("@fortnightly", "has 1 field; expected 5 fields .*, 6 .*, or a name such as @daily"),
        ("@every 90s", "is an interval; set interval to '90s' instead of a schedule"),
        (
            "TZ=Asia/Tokyo 0 9 * * *",
            "names a time zone; set timeZone to 'Asia/Tokyo', and leave 'TZ=Asia/Tokyo'",
        ),
        ("CRON_TZ=Asia/Tokyo @daily", "names a time zone; set timeZone to 'Asia/Tokyo', and leave 'CRON_TZ="),
        ("1," * 200 + "1 * * * *", "longer than 200"),
        ("", "has 0 fields"),
    ],
)
def test_what_is_no_schedule_says_why(text: str, says: str) -> None:
    with pytest.raises(ScheduleError, match=says):
        Schedule(text)


@given(st.text(st.sampled_from("0123456789*/,-#L? W@AMONJ"), max_size=40) | st.text(max_size=30))
def test_any_text_is_a_schedule_or_says_why(text: str) -> None:
    with contextlib.suppress(ScheduleError):
        assert Schedule(text).after(NOON) > NOON


@pytest.mark.parametrize("name", ["", "Europe", "europe/berlin", "../UTC", "/etc/passwd", "x" * 5000, "a\0b"])
def test_what_is_no_zone_is_an_error(name: str) -> None:
    with pytest.raises(ScheduleError, match="is no time zone"):
        zone_of(name)


FIELDS = st.tuples(
    st.sampled_from(["*", "*/7", "0", "59", "0,30", "5-50/15"]),
    st.sampled_from(["*", "*/3", "0", "2", "1-3", "2,3"]),
    st.sampled_from(["*", "29", "*/2", "L", "25,29"]),
    st.sampled_from(["*", "3", "10", "*/2"]),
    st.sampled_from(["*", "SUN", "1-5", "7L"]),
).map(" ".join)
SCHEDULES = FIELDS | st.tuples(st.sampled_from(["0", "*/20", "30"]), FIELDS).map(" ".join)
NEAR = st.sampled_from([SPRING, AUTUMN, seconds("2026-12-31T22:00:00")])
MOMENTS = st.builds(lambda near, away: near + away, NEAR, st.floats(-10_000, 100_000))


def in_zone(text: str, zone: str) -> Schedule:
    """Some of them have no moment there: 2:30 on the day on which clocks go from 2 to 3."""
    try:
        return Schedule(text, zone_of(zone))
    except ScheduleError:
        reject()


def test_an_hour_that_is_always_left_out_is_no_schedule() -> None:
    with pytest.raises(ScheduleError, match="always left out"):
        Schedule("* 2 * 3 7L", zone_of("Europe/Berlin"))
    assert Schedule("* 2 * 3 7L").after(SPRING) > SPRING


@settings(deadline=None)
@given(SCHEDULES, ZONES, MOMENTS, st.floats(0, 10_000))
def test_the_next_one_is_later_and_never_comes_earlier_for_who_asks_later(
    text: str, zone: str, moment: float, later: float
) -> None:
    schedule = in_zone(text, zone)
    comes = schedule.after(moment)
    assert comes > moment
    assert comes == int(comes)
    asked_later = schedule.after(moment + later)
    assert asked_later == comes if moment + later < comes else asked_later > comes


@settings(deadline=None)
@given(SCHEDULES, ZONES, MOMENTS, st.floats(0, 200_000))
def test_the_last_one_has_none_behind_it(text: str, zone: str, moment: float, span: float) -> None:
    schedule = in_zone(text, zone)
    first = schedule.after(moment)
    last = schedule.last(first, first + span)
    assert first <= last <= first + span < schedule.after(last)
    assert last == first or schedule.after(last - 1) == last


STEPS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0] * 6 + [-59.0, -30.5, -1.0, 45.0, 3600.0])))


@settings(deadline=None)
@given(SCHEDULES, ZONES, MOMENTS, STEPS)
def test_under_small_steps_none_is_missed_and_none_comes_twice(
    text: str, zone: str, start: float, steps: list[tuple[float, float]]
) -> None:
    schedule = in_zone(text, zone)
    table = WallClockTimetable(schedule, ClockReading(start, 0))
    wall = seen = before = start
    for passes, step in steps:
        wall = max(wall + passes + step, seen - SMALL_STEP_SECONDS)  # small in all
        seen = max(seen, wall)
        if (due := table.due(ClockReading(wall, 0))) is not None:
            assert before < due.first == schedule.after(before) <= due.moment <= wall
            before = due.moment
        assert schedule.after(before) > seen
    assert table.wait_seconds(ClockReading(wall, 0)) == schedule.after(before) - wall


MINUTES = Schedule("* * * * *")


def test_a_large_step_back_goes_by_the_new_clock() -> None:
    table = WallClockTimetable(MINUTES, ClockReading(NOON - 7200, 0))
    assert table.due(ClockReading(NOON, 0)) == Due(NOON, NOON - 7140, is_late=False)
    assert table.due(ClockReading(NOON - 3600.5, 0)) is None
    assert table.next(ClockReading(NOON - 3600.5, 0)) == NOON - 3600
    assert table.due(ClockReading(NOON - 3600, 0)) == Due(NOON - 3600, NOON - 3600, is_late=False)


def test_small_steps_back_that_add_up_are_a_large_one() -> None:
    table = WallClockTimetable(MINUTES, ClockReading(NOON + 30, 0))
    for back in (20, 40, 59):
        assert table.due(ClockReading(NOON + 30 - back, 0)) is None
    assert table.next(ClockReading(NOON - 29, 0)) == NOON + 60
    assert table.due(ClockReading(NOON - 31, 0)) is None
    assert table.next(ClockReading(NOON - 31, 0)) == NOON


def test_what_has_fired_does_not_fire_again_after_a_small_step_back() -> None:
    table = WallClockTimetable(MINUTES, ClockReading(NOON - 30, 0))
    assert table.due(ClockReading(NOON, 0)) == Due(NOON, NOON, is_late=False)
    assert table.due(ClockReading(NOON - 20, 0)) is None
    assert table.due(ClockReading(NOON, 0)) is None
    assert table.due(ClockReading(NOON + 60, 0)) == Due(NOON + 60, NOON + 60, is_late=False)


def test_of_what_a_step_forward_leaps_over_the_last_one_counts() -> None:
    table = WallClockTimetable(MINUTES, ClockReading(NOON, 0))
    assert table.due(ClockReading(NOON + 3600.5, 0)) == Due(NOON + 3600, NOON + 60, is_late=False)
    assert table.due(ClockReading(NOON + 7210, 0)) == Due(NOON + 7200, NOON + 3660, is_late=True)


def test_a_step_over_ten_years_of_seconds_is_quick() -> None:
    table = WallClockTimetable(Schedule("*/1 * 0 * * *"), ClockReading(NOON, 0))
    due = table.due(ClockReading(NOON + 10 * 365 * 86400, 0))
    assert due is not None
    assert due.moment == seconds("2035-12-31T00:59:59", ZoneInfo("UTC"))


@given(st.floats(0.01, 90), st.lists(st.floats(0, 200), max_size=40))
def test_the_nth_firing_of_an_interval_is_n_intervals_after_the_start(
    interval: float, waits: list[float]
) -> None:
    interval = round(interval, 3)
    table, monotonic, count = IntervalTimetable(interval, ClockReading(NOON, 7.5)), 7.5, 0
    for wait in waits:
        monotonic += wait
        now = ClockReading(NOON + monotonic, monotonic)
        due = table.due(now)
        new = int((monotonic - 7.5 + 1e-6) / interval)
        if due is not None:
            assert due.first == pytest.approx(NOON + 7.5 + (count + 1) * interval, abs=1e-4)
            assert due.moment == pytest.approx(NOON + 7.5 + new * interval, abs=1e-4)
        else:
            assert count == new
        count = new
        assert 0 <= table.wait_seconds(now) <= interval


def test_who_sleeps_as_long_as_an_interval_says_is_never_too_early_or_off_its_beat() -> None:
    table, monotonic = IntervalTimetable(0.1, ClockReading(NOON, 0.3)), 0.3
    for number in range(1, 1001):
        monotonic += table.wait_seconds(ClockReading(NOON + monotonic, monotonic))
        due = table.due(ClockReading(NOON + monotonic, monotonic))
        assert due is not None
        assert due.moment == pytest.approx(NOON + 0.3 + number * 0.1, abs=1e-5)


def test_an_interval_does_not_care_for_the_wall_clock() -> None:
    table = IntervalTimetable(10, ClockReading(NOON, 0))
    assert table.due(ClockReading(NOON - 5000, 9)) is None
    assert table.due(ClockReading(NOON + 5000, 10.5)) == Due(NOON + 4999.5, NOON + 4999.5, is_late=False)
    assert table.due(ClockReading(NOON - 5000, 19)) is None
