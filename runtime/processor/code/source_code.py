"""Code that a function's file carries itself: from a private folder, for as long as the process runs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.data_folder import OwnedFolder
from headrace.runtime.users import ProcessUser

_PREFIX = "headrace-code-"


@asynccontextmanager
async def written_out(
    functions: Sequence[FunctionSpec], user: ProcessUser
) -> AsyncIterator[list[FunctionSpec]]:
    """The functions, each with a folder that holds its module.

    A folder is the user's alone, deleted at the end, and by a later run where the process was killed.
    Raises UsageError where that user can't get there.
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
    owned.give(user)
    user.check_reach([module])
    return replace(function, folder=folder)
