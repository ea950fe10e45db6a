"""Inline configuration: a function.yaml as a comment block in its handler's own file, as Nuclio reads it.

# @nuclio.configure
#
# function.yaml:
#   spec:
#     triggers: ...
"""

import re
from dataclasses import replace
from itertools import takewhile

from headrace.runtime.settings.yaml_source import YamlSource, read_yaml

_INLINE_START = re.compile(r"#\s*@nuclio\.configure\s*")
_INLINE_KEY = "function.yaml"
_NO_INLINE = (
    "has no inline configuration, a comment block that begins with # @nuclio.configure;"
    " add one, or name the function.yaml or its folder"
)


def read_inline(text: str, file: str) -> YamlSource:
    """The configuration in Python source, with the lines of `file`. Problems as read_yaml has them."""
    block = _inline_block(text)
    source = read_yaml(block, file)
    if source.problems:
        return source
    data = source.data if isinstance(source.data, dict) else {}
    faults = tuple(
        source.problem((key,), f"unknown key in @nuclio.configure; expected {_INLINE_KEY}")
        for key in data
        if key != _INLINE_KEY
    )
    if _INLINE_KEY not in data and not faults:
        said = (
            f"@nuclio.configure holds no {_INLINE_KEY}: with the configuration below it"
            if block
            else _NO_INLINE
        )
        faults = (source.problem((), said),)
    lines = {path[1:]: line for path, line in source.lines.items() if path[0] == _INLINE_KEY}
    return replace(source, data=data.get(_INLINE_KEY), lines=lines, problems=faults)


def _inline_block(text: str) -> str:
    """The block's YAML on the lines and columns where it stands in `text`; "" without one."""
    lines = text.split("\n")
    start = next((at for at, line in enumerate(lines, 1) if _INLINE_START.fullmatch(line)), None)
    if start is None:
        return ""
    block = takewhile(lambda line: line.startswith("#"), lines[start:])
    return "\n" * start + "\n".join(line.replace("#", " ", 1) for line in block)
