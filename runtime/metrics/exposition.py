"""Metrics of several replicas as one text, in the format that Prometheus scrapes."""

from collections.abc import Iterable

_HEADING = b"\n# HELP "


def merge_expositions(texts: Iterable[bytes]) -> bytes:
    """Return all samples, under one heading for each metric: the first that it has.

    Samples aren't parsed, but copied line by line. `texts`: what replicas have answered a scrape with. Each
    metric begins with its HELP there, and a line ends where one does, whatever is in a label.
    """
    headings: dict[bytes, bytes] = {}
    samples: dict[bytes, list[bytes]] = {}
    for text in texts:
        # A label's value may have HELP in it, but no line break: that is escaped there.
        for metric in (b"\n" + text).split(_HEADING)[1:]:
            about, kind, lines = (*metric.split(b"\n", 2), b"", b"")[:3]
            name = about.partition(b" ")[0]
            headings.setdefault(name, _HEADING[1:] + about + b"\n" + kind + b"\n")
            # The split has taken the line break in front of the next heading: it is put back.
            samples.setdefault(name, []).append(
                lines if not lines or lines.endswith(b"\n") else lines + b"\n"
            )
    return b"".join(part for name, heading in headings.items() for part in (heading, *samples[name]))
