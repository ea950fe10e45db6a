"""Code of a function: written out where its file carries it, and watched for changes."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.dispatch.dispatcher import Dispatcher
from headrace.runtime.embedded.data_folder import OwnedFolder
from headrace.runtime.users import ProcessUser

logger = logging.getLogger(__name__)

_PREFIX = "headrace-code-"
_LOOK_SECONDS = 0.2
_MOST_NAMED = 3

Versions = Mapping[Path, tuple[int, int]]


@asynccontextmanager
async def written_out(
    functions: Sequence[FunctionSpec], user: ProcessUser
) -> AsyncIterator[list[FunctionSpec]]:
    """Yield the functions, each with a folder that holds its module.

    A folder is the user's alone, deleted at the end, and by a later run where the process was killed. Raises
    UsageError where that user can't get there.
    """
    async with AsyncExitStack() as stack:
        yield [
            await _written_out(function, user, stack) if function.code else function for function in functions
        ]


async def _written_out(function: FunctionSpec, user: ProcessUser, stack: AsyncExitStack) -> FunctionSpec:
    owned = OwnedFolder(None, _PREFIX)
    stack.push_async_callback(owned.release)
    folder = await owned.take_for(user)
    module = folder.joinpath(*function.handler_module.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(function.code, encoding="utf-8")
    # Last, once all is written: from then on it is the user's, no longer ours.
    owned.give_to_user(user)
    user.check_reach([module])
    return replace(function, folder=folder)


async def reload_forever(function: FunctionSpec, dispatchers: Sequence[Dispatcher]) -> None:
    """Replace a function's workers, between records, whenever its code changes (`--reload`).

    A handler that can't be loaded any more is named, until it can be.
    """
    folder, file = function.folder.resolve(), function.path.resolve()
    if function.code:
        # It was written out at the start: the file that a user edits isn't the one that workers import.
        logger.warning("%s holds the handler's code itself: that is read at the start alone", function.path)
        return
    logger.info("workers are replaced when a Python file below %s changes", folder)
    # On a thread: the folder may have thousands of files, and this loop hands out records.
    before = await asyncio.to_thread(_versions, folder)
    async with asyncio.TaskGroup() as reloads:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await asyncio.to_thread(_versions, folder)
            changed = sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))
            before = now
            # A Python file with an inline configuration counts as code: only that is read again.
            if file in changed and file.suffix != ".py":
                logger.warning("%s has changed: it is read at the start; run it again for that", file)
            if code := [path for path in changed if path.suffix == ".py"]:
                logger.info("%s changed: workers are replaced between records", _names(code, folder))
                _forget_compiled(code)
                for it in dispatchers:  # not awaited: a long record must not hide what is saved next
                    reloads.create_task(it.reload_workers(), name="reload")


def _versions(folder: Path) -> Versions:
    found: dict[Path, tuple[int, int]] = {}
    for path in _files(folder):
        with suppress(OSError):  # the file was deleted meanwhile
            about = path.stat()
            found[path] = about.st_mtime_ns, about.st_size
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield the folder's Python and YAML files, without those of virtual environments and hidden folders."""
    for parent, folders, files in os.walk(folder):
        # Changed in place: os.walk goes only where this list says.
        here = Path(parent)
        folders[:] = [
            it for it in folders if not it.startswith((".", "__")) and not _is_environment(here / it)
        ]
        yield from (here / it for it in files if it.endswith((".py", ".yaml")))


def _is_environment(folder: Path) -> bool:
    with suppress(PermissionError):  # a folder that can't be read is skipped like an environment
        return (folder / "pyvenv.cfg").exists()
    return True


def _forget_compiled(paths: Sequence[Path]) -> None:
    """Delete compiled files: Python takes a source of the same second and size for the compiled one."""
    for path in paths:
        with suppress(OSError):
            Path(cache_from_source(str(path))).unlink()


def _names(paths: Sequence[Path], folder: Path) -> str:
    names = [str(path.relative_to(folder)) for path in paths]
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
