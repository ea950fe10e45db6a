"""Rows on a terminal and in a pipe."""

import asyncio
import os
import pty
import sys

import pytest

from headrace.runtime.cli.records.columns import Columns, View, show_columns, watch

TRICKS = "[red]\x1b]0;you\x07"
ROWS = Columns(("topic", "lag"), [("orders", "7"), ("a" * 200, "11")])


async def looks(*views: View) -> None:
    left = iter(views)

    async def look() -> View:
        return next(left)

    await watch(look, 0, len(views))


def test_in_a_pipe_a_row_is_a_line_in_columns_that_nothing_wraps(capsys: pytest.CaptureFixture[str]) -> None:
    show_columns(ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "topic" + 197 * " " + "lag",
        "orders" + 196 * " " + "7",
        "a" * 200 + "  11",
    ]


def test_what_a_terminal_might_obey_is_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    show_columns(Columns(("topic",), [(TRICKS,)]))
    assert capsys.readouterr().out == "topic\n[red]\\x1b]0;you\\x07\n"


async def test_looks_are_appended_below_one_head_and_begin_with_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await looks(View(ROWS, "for people"), View(Columns(ROWS.heads, [("b", "3")])))
    heads, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads == ["time", "topic", "lag"]
    assert [row[1:] for row in rows] == [["orders", "7"], ["a" * 200, "11"], ["b", "3"]]
    assert all(row[0].startswith("20") for row in rows)


def test_on_a_terminal_a_look_is_drawn_over_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:

    parent, child = pty.openpty()
    with os.fdopen(child, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        narrow = [View(Columns(("topic", "lag"), [(TRICKS, str(lag))]), "below") for lag in (7, 8)]
        asyncio.run(looks(*narrow))
    drawn = ""
    while "\x1b[?25h" not in drawn:  # the cursor is there again
        drawn += os.read(parent, 65536).decode()
    os.close(parent)
    assert drawn.index(" 7 ") < drawn.index(" 8 ")
    assert "\x1b[1A" in drawn  # up a line, and again
    assert "[red]\\x1b]0;you\\x07" in drawn
