"""Search for a handler in its source, without running any of it: what is surely missing is found early."""

import ast
import importlib.util
import stat
import sys
from pathlib import Path

# By these a module may have names that its text doesn't show.
_MAY_BIND_ANYTHING = frozenset({"*", "__getattr__", "globals"})


def handler_fault(folder: Path, module: str, function: str) -> str:
    """Return why a worker, which imports the module from `folder`, can't find the function; "" if it may."""
    try:
        file = module_file(folder, module)
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    if file is None:
        return "" if _is_installed(module) else f"no module {module!r} in {folder}"
    # A file that hides one of Python's modules breaks more than this handler: said first.
    if fault := _name_fault(folder, module):
        return fault
    tree = _parsed(file)
    return tree if isinstance(tree, str) else _missing(tree, module, function)


def code_fault(code: str, module: str, function: str) -> str:
    """Return why the function isn't in a module whose text is `code`; "" if it may be."""
    tree = _tree(code.encode(), Path(f"{module}.py"))
    return tree if isinstance(tree, str) else _missing(tree, module, function)


def _missing(tree: ast.Module, module: str, function: str) -> str:
    # Any binding of the name will do, also in a branch or by an import: only running it would tell more.
    if not _bound_names(tree).isdisjoint({function, *_MAY_BIND_ANYTHING}):
        return ""
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return f"{module!r} has no function {function!r}; it has {', '.join(functions) or 'none'}"


def _name_fault(folder: Path, module: str) -> str:
    top = module.partition(".")[0]
    # The folder comes first on the worker's path, so its file would hide Python's module from all others.
    if top not in sys.stdlib_module_names:
        return ""
    file = folder / top if (folder / top).is_dir() else folder / f"{top}.py"
    return (
        f"{file} has the name of a module of Python's own, which everything else that imports it expects; "
        "rename the file"
    )


def _parsed(file: Path) -> ast.Module | str:
    """Return the module's tree, or what is wrong with it; "" where only its import will tell."""
    try:
        return _tree(file.read_bytes(), file)
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}"


def _tree(source: bytes, file: Path) -> ast.Module | str:
    try:
        return ast.parse(source, file)
    except SyntaxError as error:
        return f"{file}:{error.lineno or 1}: is no Python: {error.msg}"
    except ValueError as error:  # a NUL, before Python 3.11.4
        return f"{file}:1: is no Python: {error}"
    except (RecursionError, MemoryError):  # nested too deeply for this parser
        return ""


def module_file(folder: Path, module: str) -> Path | None:
    """Return the module's file; None where it isn't in the folder. Raises OSError."""
    stem = folder.joinpath(*module.split("."))
    candidates = (stem.with_name(f"{stem.name}.py"), stem / "__init__.py")
    return next((file for file in candidates if _is_file(file)), None)


def _is_file(path: Path) -> bool:
    """Whether a file is there. Raises OSError where nobody can tell: Path.is_file doesn't since 3.14."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL in the name
        return False


def _is_installed(module: str) -> bool:
    """Whether the outermost package is there. What is inside it can't be known without running it."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except ValueError:  # a module of the interpreter's own, such as __main__
        return True


def _bound_names(tree: ast.Module) -> set[str]:
    """Return every name that running the module might give it.

    It may return more names than that: it matters only that none is missing.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
            case ast.Name(id=name):
                names.add(name)
            case _:
                pass
    return names
