"""Which paths a function answers: those of its ingresses, or all. Pure."""

from collections.abc import Sequence


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

    @property
    def cover_all(self) -> bool:
        """There are none."""
        return not self._prefixes

    def cover(self, path: str) -> bool:
        """Whether a request for this path, decoded and without dots, is for the function."""
        return self.cover_all or any(
            path == prefix or path.startswith(f"{prefix}/") for prefix in self._prefixes
        )
