"""The target of a request, between method and version, taken apart; which paths a function answers. Pure."""

from collections.abc import Sequence
from typing import AnyStr, TypeAlias
from urllib.parse import parse_qsl, unquote

Fields: TypeAlias = dict[AnyStr, AnyStr | list[AnyStr]]
_UTF8 = "surrogateescape"  # what is no UTF-8 comes back as it was


def query_of(target: str) -> str:
    """Return the part behind the question mark, as it was sent."""
    return target.partition("#")[0].partition("?")[2]


def fields_of(query: AnyStr) -> Fields[AnyStr]:
    """Return each name's value, or the list of its values, in order, where it comes more than once."""
    found: dict[AnyStr, list[AnyStr]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def url_of(target: str, host: str) -> str:
    """Return the whole address. A target that is one goes before the header Host; `*` is the server's."""
    if target == "*":
        return f"http://{host}"
    return f"http://{host}{target}" if target.startswith("/") else target


def path_of(target: str) -> str:
    """Return the path, decoded, without `.`, `..` and empty parts, so that no prefix can be got around."""
    path = target.partition("?")[0].partition("#")[0]
    if not path.startswith("/"):  # to a proxy: http://host/path
        path = "/" + path.partition("://")[2].partition("/")[2]
    parts: list[str] = []
    *folders, last = unquote(path, errors=_UTF8).split("/")
    for part in (*folders, last):
        # Above the root there is nothing: more of these than there are parts are dropped.
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    is_folder = last in {"", ".", ".."} and bool(parts)
    return "/" + "/".join(parts) + ("/" if is_folder else "")


class Ingresses:
    """The paths that a function answers: those under the prefixes of its ingresses, or all without any.

    Prefixes are of whole parts, as in Kubernetes: /orders covers /orders/7, and not /ordersheet.
    """

    def __init__(self, paths: Sequence[str], name: str, namespace: str) -> None:
        """Fill in `paths`: `{{.Name}}`, `{{.Namespace}}` and `{{.Version}}` stand for the function's."""
        filled = [
            path.replace("{{.Name}}", name)
            .replace("{{.Namespace}}", namespace)
            .replace("{{.Version}}", "latest")
            for path in paths
        ]
        self._prefixes = tuple(f"/{path.strip('/')}".rstrip("/") for path in filled)

    def cover(self, target: str) -> bool:
        """Whether a request with this target is for the function."""
        if not self._prefixes:
            return True
        path = path_of(target)
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in self._prefixes)
