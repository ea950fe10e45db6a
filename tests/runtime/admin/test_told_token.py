"""Where whoever is to move a partition finds the admin server's token, and where nobody else does."""

import logging
import sys
from pathlib import Path

import pytest

from headrace.runtime.admin.token import NO_TOKEN, AdminToken
from headrace.runtime.processor import run

MADE_UP = AdminToken("hush", is_made_up=True)
FILE = Path("admin-1")


@pytest.mark.parametrize(
    ("token", "kept", "where", "is_shown", "lines"),
    [
        (MADE_UP, FILE, (True, False), False, ["INFO"]),
        (MADE_UP, None, (True, False), False, ["WARNING"]),
        (MADE_UP, None, (True, True), True, ["INFO"]),
        (MADE_UP, FILE, (False, False), True, ["INFO", "INFO"]),
        (MADE_UP, None, (False, False), True, ["INFO"]),
        (AdminToken("hush"), None, (True, False), False, []),
        (NO_TOKEN, None, (True, False), False, []),
    ],
)
def test_a_token_for_this_machine_only_is_in_no_log(
    *,
    token: AdminToken,
    kept: Path | None,
    where: tuple[bool, bool],
    is_shown: bool,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_local, is_terminal = where
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    run._log_where_the_token_is(token, kept, is_local=is_local)
    assert [it.levelname for it in caplog.records] == lines
    assert ("hush" in caplog.text) == is_shown
