"""What pytest says of the tests of one cell, and the tables that all of them make. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

KINDS = ("passed", "failed", "skipped")
_MOST = 300


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How many tests of each group had which outcome, and a line for each that failed."""

    counts: Mapping[str, Mapping[str, int]]
    faults: Sequence[str]

    @property
    def is_passed(self) -> bool:
        return not self.faults and any(self.counts.values())

    def shown(self, group: str) -> str:
        """The count of those that passed, and what else there is."""
        counts = self.counts.get(group, {})
        others = [f"{counts[kind]} {kind}" for kind in KINDS[1:] if counts.get(kind)]
        return ", ".join([str(counts.get("passed", 0)), *others])


def read_outcomes(junit: str, groups: Mapping[str, Sequence[str]]) -> Outcomes:
    """`junit` is pytest's XML; `groups` have the paths of tests, as in tests/a/test_b.py::test_c or less."""
    counts = {group: Counter[str]() for group in groups}
    faults = []
    for case in ET.fromstring(junit).iter("testcase"):
        place = case.get("classname", "").replace(".", "/")
        node = f"{place}.py::{case.get('name', '')}"
        group = next((name for name, nodes in groups.items() if node.startswith(tuple(nodes))), "")
        fault = case.find("failure") if case.find("failure") is not None else case.find("error")
        if fault is not None:
            faults.append(f"{case.get('name')}: {_last_error(fault)}")
        kind = "failed" if fault is not None else "skipped" if case.find("skipped") is not None else "passed"
        if group:
            counts[group][kind] += 1
    return Outcomes(counts, faults)


def _last_error(fault: ET.Element) -> str:
    """The error that was raised: of a chain of them pytest has the first lines only."""
    raised = re.findall(r"^E +([\w.]*(?:Error|Exception|Warning)\b.*)$", fault.text or "", re.MULTILINE)
    line = " ".join((raised[-1] if raised else fault.get("message", "")).split())
    return line if len(line) <= _MOST else f"{line[:_MOST]}..."


def table_of_cells(groups: Sequence[str], cells: Mapping[str, Outcomes]) -> str:
    """Markdown: a row for each cell, a column for each group of tests."""
    rows = [f"| {name} | {' | '.join(map(it.shown, groups))} |" for name, it in cells.items()]
    head = [f"| Spark, pandas | {' | '.join(groups)} |", "|---" * (len(groups) + 1) + "|"]
    faults = [f"- {name}: {fault}" for name, it in cells.items() for fault in it.faults]
    return "\n".join([*head, *rows, *([""] if faults else []), *faults, ""])


def table_of_pairs(versions: Sequence[str], pairs: Mapping[tuple[str, str], Outcomes]) -> str:
    """Markdown: a row for each client, a column for each server."""
    lines = [
        f"| client | {' | '.join(f'server {it}' for it in versions)} |",
        "|---" * (len(versions) + 1) + "|",
    ]
    notes: list[str] = []
    for client in versions:
        shown = []
        for server in versions:
            found = pairs.get((client, server))
            if found is None or found.is_passed:
                shown.append("works" if found else "a cell" if client == server else "")
                continue
            said = dict.fromkeys(fault.partition(": ")[2] for fault in found.faults)
            notes.append(f"{len(notes) + 1}. {client} on {server}: {'; '.join(said)}")
            shown.append(f"line {len(notes)}")
        lines.append(f"| {client} | {' | '.join(shown)} |")
    return "\n".join([*lines, *([""] if notes else []), *notes, ""])
