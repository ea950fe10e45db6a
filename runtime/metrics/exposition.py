"""What several replicas publish, as one text."""

from collections.abc import Iterable

_HEADING = b"\n# HELP "


def merged(texts: Iterable[bytes]) -> bytes:
    """All samples under one heading per metric, the first that one has: line by line, nothing is parsed.

    The texts are Prometheus's, as our own replicas make them: each metric begins with its HELP, and a line
    ends where one does, whatever is in a label.
    """
    headings: dict[bytes, bytes] = {}
    samples: dict[bytes, list[bytes]] = {}
    for text in texts:
        for metric in (b"\n" + text).split(_HEADING)[1:]:
            about, kind, lines = (*metric.split(b"\n", 2), b"", b"")[:3]
            name = about.partition(b" ")[0]
            headings.setdefault(name, _HEADING[1:] + about + b"\n" + kind + b"\n")
            samples.setdefault(name, []).append(
                lines if not lines or lines.endswith(b"\n") else lines + b"\n"
            )
    return b"".join(part for name, heading in headings.items() for part in (heading, *samples[name]))
