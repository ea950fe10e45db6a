"""Which paths a function answers: those of its ingresses, or all. Pure."""

from collections.abc import Sequence

from headrace.triggers.http.target import path_of


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
