"""`make storm`: all storms, and a report. What has its result for this commit is skipped.

usage: everything.py [NAME...] [--share FRACTION]     NAME: one of STORMS; a share of 0.1 is a short look
"""

import argparse
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sabotage import FAILPOINTS

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = ROOT / ".storm"
REPORT = ROOT / "docs" / "storm-report.md"


@dataclass(frozen=True, slots=True)
class Storm:
    """One line of the report: a script, one of its scenarios, how often, and how long each load lasts."""

    script: str
    scenario: str
    count: int
    seconds: int = 20

    @property
    def name(self) -> str:
        return self.scenario or self.script


STORMS = [
    Storm("model", "", 100),
    *(Storm("failpoints", name, 20) for name in FAILPOINTS),
    Storm("faults", "k1-pool", 10, 40),
    Storm("faults", "k1-static", 10, 40),
    Storm("faults", "k2", 4, 40),
    Storm("faults", "k3", 30, 6),
    Storm("faults", "k4", 10, 40),
    Storm("faults", "r1", 6, 100),
    Storm("faults", "t1", 5),
    Storm("network", "cut-1s", 20, 20),
    Storm("network", "cut-10s", 10, 20),
    Storm("network", "cut-60s", 3, 20),
    Storm("network", "one-way", 5, 20),
    Storm("network", "delay", 5, 20),
    Storm("network", "b1-restart", 10, 20),
    Storm("network", "b1-kill", 10, 6),
    Storm("records", "p2", 10),
    Storm("records", "p3", 5),
    Storm("logs", "p4", 20, 10),
    Storm("logs", "p5", 10),
    Storm("logs", "r3", 20),
    Storm("soak", "d1", 10),
    Storm("soak", "s1", 1, 600),
    Storm("kills", "", 20),
    Storm("rebalances", "", 20),
    Storm("stops", "", 20),
    Storm("acks", "", 50),
    Storm("poison", "", 20),
    Storm("batches", "", 20),
    Storm("spark_kills", "", 20),
]
_COLUMNS = (
    *("storm", "repetitions", "produced", "lost", "repeated, at most", "of those allowed"),
    *("overlap, s", "stall, s", "seed", "bounds"),
)
_FIGURE = re.compile(r"^(\S+): (.+): (\d+) times, min (\S+), median (\S+), max (\S+), bound (\S+) to (\S+), ")


def main() -> int:
    """0 where every bound held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[[], *(storm.name for storm in STORMS)])
    parser.add_argument("--share", type=float, default=1.0, help="of the repetitions")
    options = parser.parse_args()
    folder = RESULTS / commit()
    folder.mkdir(parents=True, exist_ok=True)
    for storm in STORMS:
        if not options.names or storm.name in options.names:
            run(storm, folder / f"{storm.name}.txt", options.share)
    held = {storm.name: result(folder / f"{storm.name}.txt") for storm in STORMS}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(report({name: text for name, text in held.items() if text}))
    print(f"{REPORT.relative_to(ROOT)} is written")
    broken = [name for name, text in held.items() if text and not text.endswith("exit code 0\n")]
    if broken:
        print(f"bounds were broken, or a storm ended early: {', '.join(broken)}")
    return 1 if broken else 0


def commit() -> str:
    """What the tree is, changes included: their results are not the commit's."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def run(storm: Storm, path: Path, share: float) -> None:
    """Its output goes to the terminal and to `path`, which is there once the storm has ended."""
    if path.exists():
        print(f"== {storm.name}: has its result", flush=True)
        return
    print(f"== {storm.name}", flush=True)
    count = max(1, round(storm.count * share))
    arguments = [*([storm.scenario] if storm.scenario else []), "--count", str(count)]
    if storm.script != "model":
        arguments += ["--seconds", str(storm.seconds)]
    partial, began = path.with_suffix(".partial"), time.monotonic()
    with partial.open("w") as file:
        command = [sys.executable, str(HERE / f"{storm.script}.py"), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                file.write(line)
        file.write(f"took {time.monotonic() - began:.0f} s\nexit code {process.returncode}\n")
    partial.rename(path)


def result(path: Path) -> str:
    """What a storm has printed; empty where it hasn't run."""
    return path.read_text() if path.exists() else ""


def report(results: dict[str, str]) -> str:
    """Markdown: one table of the promises, then every figure."""
    rows = [
        f"# Storms\n\nWritten by `make storm` at {commit()}. A failing run is replayed by its seed.\n",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{len(_COLUMNS) * '---|'}",
    ]
    rows += [row(name, text) for name, text in results.items()]
    rows.append("\n## Every figure\n\n| scenario | figure | times | min | median | max | bound |")
    rows.append("|---|---|---|---|---|---|---|")
    for text in results.values():
        rows += [
            "| {} | {} | {} | {} | {} | {} | {} to {} |".format(*found.groups())
            for line in text.splitlines()
            if (found := _FIGURE.match(line))
        ]
    return "\n".join(rows) + "\n"


def row(name: str, text: str) -> str:
    """Its figures are those of a Load; a storm of another kind has its own, below."""
    figures = {found[2]: found for line in text.splitlines() if (found := _FIGURE.match(line))}

    def worst(figure: str) -> str:
        return figures[figure][6] if figure in figures else ""

    produced = figures.get("produced")
    cells = [
        name,
        next(iter(figures.values()))[3] if figures else "",
        f"{int(produced[3]) * float(produced[5]):.0f}" if produced else "",
        *map(worst, ("L1 lost", "L2 repeated", "L2 repeated, of those allowed", "L4 longest overlap, s")),
        worst("L9 longest stall, s"),
        found[1] if (found := re.search(r"^seed (\d+)", text, re.MULTILINE)) else "",
        "held" if text.endswith("exit code 0\n") else "**broken**",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
