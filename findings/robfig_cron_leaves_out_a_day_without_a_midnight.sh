#!/usr/bin/env bash
# robfig/cron v3.0.1, which Nuclio's cron trigger uses, leaves out a whole day where clocks change at midnight.
# Guess: a change of the clocks concerns the hours that they leap over. A schedule for 12:30 on Sundays fires each
# Sunday, also on the one that begins at 1:00 because 0:00 was leapt over.
# Seen: it doesn't fire at all on Sunday, 29 March 2026 in Asia/Beirut, twelve hours after the change, nor on the 29th
# where the schedule names that day. The search goes from midnight to midnight, lands at 1:00 of the day that fits,
# and goes on with the next one. On Lord Howe Island, where clocks change at 2:00 by half an hour, a daily schedule
# for 5:00 leaves out that day as well. `30 12 * * *` in Beirut is right: no field of a day has it look for one.
# What fires weekly or monthly there, at whatever hour, is late by a week or a month once a year.
# Needs Go on the PATH. Runs in a temporary folder. Exits 0 where that is so, 1 where it isn't any more.
set -euo pipefail
command -v go >/dev/null || { echo "needs Go on the PATH" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export GOPATH="$folder/go" GOCACHE="$folder/cache" GOFLAGS=-modcacherw
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // of Go's own, whatever this machine has

	"github.com/robfig/cron/v3"
)

func main() {
	isAsSeen := true
	for _, known := range [][4]string{
		{"Asia/Beirut", "30 12 * * *", "2026-03-28", " 29 Mar 12:30, 30 Mar 12:30, 31 Mar 12:30,"},
		{"Asia/Beirut", "30 12 * * 0", "2026-03-27", " 05 Apr 12:30, 12 Apr 12:30, 19 Apr 12:30,"},
		{"Asia/Beirut", "0 6 29 * *", "2026-03-01", " 29 Apr 06:00, 29 May 06:00, 29 Jun 06:00,"},
		{"Australia/Lord_Howe", "0 5 * * *", "2026-10-02", " 03 Oct 05:00, 05 Oct 05:00, 06 Oct 05:00,"},
		// No change of the clocks at midnight: the same week is whole.
		{"Europe/Berlin", "30 12 * * 0", "2026-03-27", " 29 Mar 12:30, 05 Apr 12:30, 12 Apr 12:30,"},
	} {
		zone, err := time.LoadLocation(known[0])
		if err != nil {
			panic(err)
		}
		next, err := time.ParseInLocation("2006-01-02 15:04", known[2]+" 13:00", zone)
		if err != nil {
			panic(err)
		}
		schedule, err := cron.ParseStandard(known[1])
		if err != nil {
			panic(err)
		}
		said := ""
		for range [3]int{} {
			next = schedule.Next(next)
			said += next.Format(" 02 Jan 15:04,")
		}
		fmt.Printf("%-19s %-11s after %s:%s\n", known[0], known[1], known[2], said)
		isAsSeen = isAsSeen && said == known[3]
	}
	if !isAsSeen {
		os.Exit(1)
	}
}
GO
go mod init asked >go.log 2>&1
go get github.com/robfig/cron/v3@v3.0.1 >>go.log 2>&1
go run .
