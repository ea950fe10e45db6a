"""What the first line of a request asks for, between method and version. Pure."""

from typing import AnyStr, TypeAlias
from urllib.parse import parse_qsl, unquote

Fields: TypeAlias = dict[AnyStr, AnyStr | list[AnyStr]]
_UTF8 = "surrogateescape"  # what is no UTF-8 comes back as it was


def query_of(target: str) -> str:
    """What stands behind the question mark, as it was sent."""
    return target.partition("#")[0].partition("?")[2]


def fields_of(query: AnyStr) -> Fields[AnyStr]:
    """A name's value, or the list of its values, in order, where it comes more than once."""
    found: dict[AnyStr, list[AnyStr]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def url_of(target: str, host: str) -> str:
    """The whole address. A target that is one goes before the header Host; `*` is all of the server."""
    if target == "*":
        return f"http://{host}"
    return f"http://{host}{target}" if target.startswith("/") else target


def path_of(target: str) -> str:
    """The path, decoded, without `.`, `..` and empty parts: nothing that a prefix could be got around by."""
    path = target.partition("?")[0].partition("#")[0]
    if not path.startswith("/"):  # to a proxy: http://host/path
        path = "/" + path.partition("://")[2].partition("/")[2]
    parts: list[str] = []
    *folders, last = unquote(path, errors=_UTF8).split("/")
    for part in (*folders, last):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    is_folder = last in {"", ".", ".."} and bool(parts)
    return "/" + "/".join(parts) + ("/" if is_folder else "")
