//go:build linux

// Command decision measures what a rate limit's decision in memory takes, beside what
// others do: golang.org/x/time/rate, with a limiter for each key in a sync.Map, as
// people do, and github.com/sethvargo/go-limiter. All run in this process, one after
// another and again, and are compared within each round by processor time, so that it
// matters little what else the machine does. `make microbench` runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// options is what the command line says.
type options struct {
	rounds   int
	duration time.Duration
	keys     int
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "decision:", err)
		os.Exit(1)
	}
}

func run(arguments []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("decision", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 7, "how often each is measured in each case")
	flags.DurationVar(&o.duration, "duration", 300*time.Millisecond, "for how long")
	flags.IntVar(&o.keys, "keys", 1_000_000, "how many keys many are")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if o.rounds < 1 || o.duration <= 0 || o.keys < 1 || flags.NArg() > 0 {
		return errors.New("at least 1 round, some time and 1 key, and no arguments")
	}
	for _, s := range scenarios(o.keys) {
		table, err := s.measure(&o)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, table); err != nil {
			return err
		}
	}
	return nil
}
