"""What the first line of a request asks for, between method and version. Pure."""

from collections.abc import Sequence
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


class Ingresses:
    """Prefixes by whole parts, as Kubernetes has them: /orders covers /orders/7, and not /ordersheet."""

    def __init__(self, paths: Sequence[str], name: str, namespace: str) -> None:
        """In `paths`, `{{.Name}}`, `{{.Namespace}}` and `{{.Version}}` stand for the function's."""
        filled = [
            path.replace("{{.Name}}", name)
            .replace("{{.Namespace}}", namespace)
            .replace("{{.Version}}", "latest")
            for path in paths
        ]
        self._prefixes = tuple(f"/{path.strip('/')}".rstrip("/") for path in filled)

    def cover(self, target: str) -> bool:
        """Whether a request for this, as it stands in its first line, is for the function."""
        if not self._prefixes:
            return True
        path = path_of(target)
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in self._prefixes)
