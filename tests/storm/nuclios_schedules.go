// When Nuclio fires: its parser's settings, and what it does to a schedule before it parses it.
// Reads a JSON array of {text, zone, starts}, writes one of {error, firings}: for each start the next few moments.
package main

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const firings = 6

type question struct {
	Text   string
	Zone   string
	Starts []int64
}

type answer struct {
	Error   string    `json:"error"`
	Firings [][]int64 `json:"firings"`
}

func parse(text string) (cron.Schedule, error) {
	fields := strings.Split(text, " ")
	if len(fields) > 5 && fields[0] == "*" {
		fields[0] = "0"
	}
	options := cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor
	return cron.NewParser(options).Parse(strings.Join(fields, " "))
}

func ask(asked question) (found answer) {
	schedule, err := parse(asked.Text)
	if err != nil {
		return answer{Error: err.Error()}
	}
	zone, err := time.LoadLocation(asked.Zone)
	if err != nil {
		panic(err)
	}
	for _, start := range asked.Starts {
		moments := []int64{}
		for next := schedule.Next(time.Unix(start, 0).In(zone)); len(moments) < firings && !next.IsZero(); next = schedule.Next(next) {
			moments = append(moments, next.Unix())
		}
		found.Firings = append(found.Firings, moments)
	}
	return found
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		panic(err)
	}
	answers := make([]answer, len(questions))
	for at, asked := range questions {
		answers[at] = ask(asked)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
