"""Where hyperparameters go in the tree of a run."""

from typing import Any


def set_attrs(attrs: dict[str, Any], value: dict[str, Any]) -> None:
    """Set what `value` says, and leave what is beside it.

    A chain of objects with one member each is a path: what stands at its end replaces what is there. At the
    top, each member is an end of its own.
    """
    path: list[str] = []
    end: Any = value
    while isinstance(end, dict) and len(end) == 1:
        ((name, end),) = end.items()
        path.append(name)
    if not path:
        attrs.update(value)
        return
    *above, last = path
    at = attrs
    for name in above:
        below = at.get(name)
        if not isinstance(below, dict):
            below = at[name] = {}
        at = below
    at[last] = end
