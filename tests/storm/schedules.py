"""Random schedules beside Nuclio's own parser, robfig/cron v3.0.1: `make schedules` tries 3,000. Needs Go.

Both say the same moments, or `headrace validate` says why not. What fires otherwise without a word fails it.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from random_schedules import Case, random_case

from headrace.triggers.cron.differences import blanks_count, clocks_change
from headrace.triggers.cron.expression import NAMES, ScheduleError
from headrace.triggers.cron.schedule import Schedule, zone_of

_PROGRAM = Path(__file__).with_name("nuclios_schedules.go")
_MODULE = "github.com/robfig/cron/v3@v3.0.1"
_ONLY_THERE = ("names a time zone", "is an interval", "no day is like that")
"""What Nuclio takes and Headrace refuses, in words of the line that says so."""
_ONLY_HERE = re.compile(r"L|#|\b7\b|@Daily")
_NEXT = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """Why it is refused, or its next moments from each start."""

    error: str
    firings: list[list[int]]


def nuclios_answers(cases: list[Case], folder: Path) -> list[Answer]:
    """From a program that is built in `folder`, of a module that is fetched."""
    shutil.copy(_PROGRAM, folder / "main.go")
    for command in (["mod", "init", "schedules"], ["get", _MODULE], ["build", "-o", "schedules", "."]):
        subprocess.run(["go", *command], cwd=folder, check=True, capture_output=True, text=True)
    asked = json.dumps([{"Text": case.text, "Zone": case.zone, "Starts": case.starts} for case in cases])
    ran = subprocess.run([folder / "schedules"], input=asked, check=True, capture_output=True, text=True)
    return [Answer(answer["error"], answer["firings"] or []) for answer in json.loads(ran.stdout)]


def our_answer(case: Case) -> Answer:
    """The same question, asked here."""
    try:
        schedule = Schedule(case.text, zone_of(case.zone))
    except ScheduleError as error:
        return Answer(str(error), [])
    return Answer("", [_next(schedule, start) for start in case.starts])


def _next(schedule: Schedule, moment: float) -> list[int]:
    found: list[int] = []
    while len(found) < _NEXT:
        moment = schedule.after(moment)
        found.append(int(moment))
    return found


def compared(case: Case, theirs: Answer, ours: Answer) -> str:
    """What is printed of it; empty where it is a difference that nobody notes."""
    if theirs.error and ours.error:
        return "refused by both"
    if theirs.error:
        return "valid here, refused there" if _ONLY_HERE.search(case.text) else ""
    if ours.error:
        noted = [words for words in _ONLY_THERE if words in ours.error]
        return f"refused here: {noted[0]}" if noted else ""
    if theirs.firings == ours.firings:
        return "equal"
    zone, fields = zone_of(case.zone), NAMES.get(case.text.lower(), case.text).split()
    if blanks_count(case.text):
        note, fields[0] = "blanks around its first *", "0" if len(fields) == 5 else "*/1"
    elif clocks_change(Schedule(case.text, zone)):
        note = "where clocks change"
    else:
        return ""
    as_noted = Schedule(" ".join(["0", *fields][-6:]), zone)  # six fields go by the clock's face
    is_so = theirs.firings == [_next(as_noted, start) for start in case.starts]
    return f"noted: {note}" if is_so else ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if shutil.which("go") is None:
        sys.exit("Go isn't on PATH: Nuclio's parser is a Go module")
    chance = random.Random(options.seed)
    cases = [random_case(chance) for _ in range(options.count)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            answers = nuclios_answers(cases, Path(folder))
        except subprocess.CalledProcessError as error:
            sys.exit(f"{error}\n{error.stderr}")
    counts: Counter[str] = Counter()
    for case, theirs in zip(cases, answers, strict=True):
        ours = our_answer(case)
        outcome = compared(case, theirs, ours)
        counts[outcome or "different, and not noted"] += 1
        if not outcome:
            print(f"{case.text!r} in {case.zone}\n  there {theirs}\n  here  {ours}")
    print(f"{options.count} schedules, seed {options.seed}; from each start the next {_NEXT} moments")
    for outcome, count in counts.most_common():
        print(f"{count:6} {outcome}")
    sys.exit(1 if counts["different, and not noted"] else 0)


if __name__ == "__main__":
    main()
