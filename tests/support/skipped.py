"""A plugin of pytest: what was skipped is one line at the end of a run, with how to get it."""

from collections import Counter

from pytest import TerminalReporter  # noqa: PT013  # a name of pytest's, for its type


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    if reasons:
        said = "; ".join(f"{count} for {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"{reasons.total()} not run: {said}")
