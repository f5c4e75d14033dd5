//go:build linux

// Command bench measures Sluice beside other proxies: the same job, the same
// endpoint and client, one machine, rounds that alternate. It starts every
// process itself, on free ports, and ends it by its id. `make bench` builds and
// runs it; docs/benchmarks.md tells how to read what it writes.
//
// It is no load tester and knows no remote machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// options is what the command line says. Paths are relative to the repository's
// root, where it is run.
type options struct {
	rounds   int
	duration time.Duration
	only     string
	sluice   string
	work     string
	page     string
	plot     string
	render   bool
}

func main() {
	// A child is told when the thread that started it dies: keep that one.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage")

// speech is where a run says what it does.
type speech struct{ to io.Writer }

func (s speech) say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(s.to, format+"\n", arguments...) // nobody listens: no reason to stop
}

func run(ctx context.Context, arguments []string, out, progress io.Writer) error {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.rounds, "rounds", 5, "how often every proxy is measured in every case")
	flags.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long each is saturated; half load takes two thirds of it")
	flags.StringVar(&o.only, "only", "", "regular expression: only these cases or proxies, by whole name")
	flags.StringVar(&o.sluice, "sluice", "bin/sluice", "the gateway's binary")
	flags.StringVar(&o.work, "work", "bin/bench", "where programs are built and results are kept")
	flags.StringVar(&o.page, "page", "docs/benchmarks.md", "the page whose section is written")
	flags.StringVar(&o.plot, "plot", "docs/benchmarks.svg", "the plot that is written")
	flags.BoolVar(&o.render, "render", false, "measure nothing, write page and plot from the kept results")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if o.rounds < 1 || o.duration < 100*time.Millisecond || flags.NArg() > 0 {
		return fmt.Errorf("%w: at least 1 round of 100ms, and no arguments", errUsage)
	}

	results := filepath.Join(o.work, "results.json")
	if o.render {
		r, err := readResults(results)
		if err != nil {
			return err
		}
		return publish(r, o, out)
	}
	cases, proxies, err := choose(o.only)
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, cases, proxies, speech{progress})
	if err != nil {
		return err
	}
	if err := r.write(results); err != nil {
		return err
	}
	if o.only != "" || o.rounds < minRounds {
		_, err := io.WriteString(out, r.markdown())
		speech{progress}.say("bench: %s stays as it is: writing it takes all cases and proxies, and %d rounds", o.page, minRounds)
		return err
	}
	return publish(r, o, out)
}

// publish writes the page's section and the plot, and prints the section.
func publish(r *results, o options, out io.Writer) error {
	text := r.markdown()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	page, err := os.ReadFile(o.page)
	if err != nil {
		return err
	}
	changed, err := replaceSection(string(page), text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	if err := os.WriteFile(o.page, []byte(changed), 0o644); err != nil {
		return err
	}
	return os.WriteFile(o.plot, []byte(r.svg()), 0o644)
}
