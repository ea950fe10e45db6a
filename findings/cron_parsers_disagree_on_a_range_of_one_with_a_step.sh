#!/usr/bin/env bash
# croniter 7.0.0, cronsim 2.8, APScheduler 3.11.0 and robfig/cron v3.0.1 have four readings of the minutes `3-3/1`.
# Guess: a range from 3 to 3 has one value whatever its step, so all of them fire once an hour, at minute 3.
# Seen: robfig/cron does. cronsim fires at each minute from 3 to 59: a range that comes down to one number is taken
# for `3/1`. croniter fires at each minute of the hour. APScheduler refuses it, for its step is longer than the range.
# Such ranges are written by programs that fill in a first, a last and a step. What is the same in all four:
# `3 * * * *` and `3-4/1 * * * *`.
# robfig/cron is asked where Go is on the PATH. Runs in a temporary folder.
# Exits 0 where that is so, 1 where it isn't any more.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check croniter==7.0.0 cronsim==2.8 apscheduler==3.11.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys
from datetime import datetime, timedelta, timezone
from importlib.metadata import version

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

START = datetime(2026, 1, 2, 12, 0, 7, tzinfo=timezone.utc)


def by_croniter(text):
    found = croniter(text, START)
    return [found.get_next(datetime) for _ in range(3)]


def by_cronsim(text):
    found = CronSim(text, START)
    return [next(found) for _ in range(3)]


def by_apscheduler(text):
    trigger, found = CronTrigger.from_crontab(text, timezone.utc), [START]
    for _ in range(3):
        found.append(trigger.get_next_fire_time(None, found[-1] + timedelta(seconds=1)))
    return found[1:]


def said(reads, text):
    try:
        return " ".join(moment.strftime("%H:%M") for moment in reads(text))
    except ValueError as error:
        return f"refused: {error}"


read = {"croniter": by_croniter, "cronsim": by_cronsim, "apscheduler": by_apscheduler}
answers = {}
for text in ("3 * * * *", "3-4/1 * * * *", "3-3/1 * * * *"):
    for name, reads in read.items():
        answers[text, name] = said(reads, text)
        print(f"{text:14} {name} {version(name)}: {answers[text, name]}")
as_expected = all(
    answers[text, name] == moments
    for text, moments in (("3 * * * *", "12:03 13:03 14:03"), ("3-4/1 * * * *", "12:03 12:04 13:03"))
    for name in read
)
as_seen = (
    answers["3-3/1 * * * *", "croniter"] == "12:01 12:02 12:03"
    and answers["3-3/1 * * * *", "cronsim"] == "12:03 12:04 12:05"
    and answers["3-3/1 * * * *", "apscheduler"].startswith("refused: ")
)
sys.exit(not (as_expected and as_seen))
PYTHON
command -v go >/dev/null || { echo "no Go: robfig/cron isn't asked"; exit 0; }
cd "$folder"
export GOPATH="$folder/go" GOFLAGS=-modcacherw
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	start := time.Date(2026, 1, 2, 12, 0, 7, 0, time.UTC)
	isAsExpected := true
	for text, expected := range map[string]string{
		"3 * * * *":     " 12:03 13:03 14:03",
		"3-4/1 * * * *": " 12:03 12:04 13:03",
		"3-3/1 * * * *": " 12:03 13:03 14:03",
	} {
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			panic(err)
		}
		said := ""
		for next, count := schedule.Next(start), 0; count < 3; next, count = schedule.Next(next), count+1 {
			said += next.Format(" 15:04")
		}
		fmt.Printf("%-14s robfig/cron v3.0.1:%s\n", text, said)
		isAsExpected = isAsExpected && said == expected
	}
	if !isAsExpected {
		os.Exit(1)
	}
}
GO
go mod init asked >go.log 2>&1
go get github.com/robfig/cron/v3@v3.0.1 >>go.log 2>&1
go run .
