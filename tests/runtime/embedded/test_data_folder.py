"""The folders of embedded servers, where everybody may put something beside them."""

import os
import tempfile
from pathlib import Path

import pytest

from headrace.runtime.embedded.data_folder import OwnedFolder


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.timeout(60)
async def test_a_fifo_that_somebody_has_planted_holds_up_no_start(shared: Path) -> None:
    planted = shared / "headrace-x-planted"
    planted.mkdir()
    os.mkfifo(planted / "lock")
    os.utime(planted, (0, 0))
    folder = OwnedFolder(None, "headrace-x-")
    path = await folder.take()
    assert path.stat().st_mode & 0o777 == 0o700
    assert planted.exists()
    await folder.release()


async def test_what_another_user_has_left_is_not_swept_up(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = shared / "headrace-x-left"
    left.mkdir()
    (left / "lock").touch()
    os.utime(left, (0, 0))
    with monkeypatch.context() as as_somebody_else:
        as_somebody_else.setattr(os, "geteuid", lambda: 12345)
        folder = OwnedFolder(None, "headrace-x-")
        await folder.take()
        await folder.release()
    assert left.exists()


@pytest.mark.timeout(60)
async def test_a_kept_folder_with_a_planted_lock_is_refused(shared: Path) -> None:
    (shared / "data").mkdir()
    os.mkfifo(shared / "data" / "lock")
    folder = OwnedFolder(shared / "data", "headrace-x-")
    with pytest.raises(FileExistsError, match="no regular file"):
        await folder.take()
    await folder.release()
