"""Loading of the user's handler, and of what a trigger brings, in a worker process."""

import asyncio
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.runtime.worker import alias

# By it, decorators that know no inspect.markcoroutinefunction mark what returns a coroutine. It is gone in
# Python 3.16; asyncio.iscoroutinefunction, which asks for it, is deprecated since 3.14.
_MARKED = getattr(asyncio.coroutines, "_is_coroutine", object())


class HandlerNotLoadedError(Exception):
    """The message says what the user has to mend, with the user's own traceback where there is one."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function `(context, event)`, and whether its calls need a running event loop."""

    call: Callable[[Any, Any], Any]
    is_async: bool


def load_handler(folder: Path, module_name: str, function_name: str) -> tuple[Handler, Any]:
    """Import `module_name` from `folder`; return its handler, and its init_context or None.

    Raises HandlerNotLoadedError.
    """
    # First, so that the user's module is found before an installed one of its name.
    sys.path.insert(0, str(folder))
    provide_nuclio()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Else the handler's own imports lack a module: their traceback says where.
        if error.name == module_name.partition(".")[0]:
            raise HandlerNotLoadedError(f"no module {module_name!r} in {folder}") from None
        raise HandlerNotLoadedError(_users_traceback(module_name, error)) from None
    except BaseException as error:  # a module may even call sys.exit()
        raise HandlerNotLoadedError(_users_traceback(module_name, error)) from None
    _refuse_namesake(folder, module_name.partition(".")[0])
    handler = _handler_in(module, module_name, function_name)
    return handler, _init_context_of(handler, module)


def _refuse_namesake(folder: Path, name: str) -> None:
    """Raise where a module of this name, imported before, has answered in place of the user's file."""
    files = (folder / f"{name}.py", folder / name / "__init__.py")
    theirs = next(filter(os.path.isfile, files), None)  # Path.is_file may raise before 3.14
    found = sys.modules[name].__file__
    if theirs is not None and (found is None or Path(found).resolve() != theirs.resolve()):
        where = found or "Python itself"
        raise HandlerNotLoadedError(
            f"the module {name!r} that a worker has is {where}, not {theirs}; rename the file"
        )


def load_named(what: str, path: str) -> Any:
    """Import what a trigger names as `module:name`. Raises HandlerNotLoadedError, in one line."""
    module_name, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except Exception as error:
        text = f"the trigger's {what}, {path!r}, can't be loaded ({type(error).__name__}: {error})"
        raise HandlerNotLoadedError(text) from None


def provide_nuclio() -> None:
    """Have `import nuclio` find the SDK where no such package is: the documented snippets say so."""
    # By the path, which multiprocessing passes on to processes that it starts: they import the handler too.
    if importlib.util.find_spec("nuclio") is None:
        sys.path.append(str(Path(alias.__file__).parent))


def _handler_in(module: Any, module_name: str, function_name: str) -> Handler:
    call = getattr(module, function_name, None)
    if not callable(call):
        functions = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        raise HandlerNotLoadedError(
            f"{module_name!r} has no function {function_name!r}; it has {', '.join(functions) or 'none'}"
        )
    return Handler(call, is_async(call))


def _init_context_of(handler: Handler, module: Any) -> Any:
    """Return the init_context of the module that defines the handler, as Nuclio does.

    Where that has none, it is the one of the module that was named.
    """
    definer = sys.modules.get(getattr(handler.call, "__module__", None) or "")
    return getattr(definer, "init_context", None) or getattr(module, "init_context", None)


def is_async(call: Any) -> bool:
    """Whether calls of a handler need a running event loop."""
    # An object with an async __call__ is no coroutine function itself.
    target = call if inspect.isroutine(call) else type(call).__call__
    is_marked = getattr(target, "_is_coroutine", None) is _MARKED
    return is_marked or inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)


def _users_traceback(module_name: str, error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    lines = traceback.format_list(theirs) + traceback.format_exception_only(error)
    return f"importing {module_name!r} raised, in your code:\n{''.join(lines).rstrip()}"
