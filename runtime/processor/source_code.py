"""Code that a function's file carries itself: from a private folder, for as long as the process runs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.embedded.folder import OwnedFolder

_PREFIX = "headrace-code-"


@asynccontextmanager
async def written_out(functions: Sequence[FunctionSpec]) -> AsyncIterator[list[FunctionSpec]]:
    """The functions, each with a folder that holds its module.

    A folder is its owner's alone, deleted at the end, and by a later run where the process was killed.
    """
    async with AsyncExitStack() as stack:
        yield [await _written_out(function, stack) if function.code else function for function in functions]


async def _written_out(function: FunctionSpec, stack: AsyncExitStack) -> FunctionSpec:
    owned = OwnedFolder(None, _PREFIX)
    stack.push_async_callback(owned.release)
    folder = await owned.take()
    module = folder.joinpath(*function.handler_module.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(function.code, encoding="utf-8")
    return replace(function, folder=folder)
