package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/snapshot"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [-c FILE] METHOD URL [-H 'K: V']... [--ip ADDR]",
		Short: "Tell for one request which route takes it and why, of a file or of the running gateway",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" {
				return &usageError{errors.New("'sluice explain' needs a METHOD and a URL, such as GET http://api.example.com/users/42")}
			}
			return nil
		},
	}
	file := configFlag(cmd, "configuration `FILE`; without it, ask the running gateway")
	headers := cmd.Flags().StringArrayP("header", "H", nil, "a field of the request, as `'Name: value'`; may be repeated")
	ip := filledFlag(cmd, "ip", "", "client address, as `ADDR` (default 127.0.0.1)")
	listener := filledFlag(cmd, "listener", "", "listener that it comes to, by its `NAME` (default the one with the port of URL, else the first)")
	admin := adminFlag(cmd)
	output := outputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		request, client, err := snapshot.Question(args[0], args[1], *headers, *ip)
		if err != nil {
			return &usageError{err}
		}
		explanation := &snapshot.Explanation{}
		if *file == "" {
			gateway, err := admin()
			if err != nil {
				return err
			}
			query := url.Values{"method": {args[0]}, "url": {args[1]}, "header": *headers, "ip": {*ip}, "listener": {*listener}}
			if err := gateway.get(cmd, "/_gateway/explain", query, explanation); err != nil {
				return err
			}
		} else {
			compiled, err := compile(cmd.ErrOrStderr(), *file, config.Environment{})
			if err != nil {
				return err
			}
			if explanation, err = compiled.Explain(request, *listener, client); err != nil {
				return &usageError{err}
			}
		}
		if format == "json" {
			return printJSON(cmd.OutOrStdout(), explanation)
		}
		return printExplanation(cmd.OutOrStdout(), explanation)
	}
	return cmd
}

func printExplanation(w io.Writer, e *snapshot.Explanation) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	out := &errorWriter{w: table}
	out.printf("path\t%s\n", e.Path)
	for i, candidate := range e.Candidates {
		verdict := "matches"
		if candidate.Failed != "" {
			verdict = "no: " + candidate.Failed
		}
		out.printf("%s\t%d. %s\t%s\n", first(i, "candidates"), i+1, candidate.Route, verdict)
	}
	if e.Route == "" {
		out.printf("refused\t%s\n", e.Refused)
		return errors.Join(out.err, table.Flush())
	}
	out.printf("route\t%s\n", e.Route)
	if len(e.Middleware) == 0 {
		out.printf("middleware\tnone\n")
	}
	for i, step := range e.Middleware {
		out.printf("%s\t%d. %s\tfrom %s\n", first(i, "middleware"), i+1, step.Kind, step.From)
	}
	for i, step := range e.Skipped {
		out.printf("%s\t%s\tfrom %s\n", first(i, "skipped"), step.Kind, step.From)
	}
	kind := e.Destination.Kind
	if e.Destination.Upstream != "" {
		kind += " " + e.Destination.Upstream
	}
	out.printf("destination\t%s: %s\nbecause\t%s\n", kind, e.Destination.Target, e.Destination.Reason)
	if e.Destination.Breaker != "" {
		out.printf("breaker\t%s\n", e.Destination.Breaker)
	}
	printAvailability(out, e)
	return errors.Join(out.err, table.Flush())
}

// printAvailability prints how it stands with the endpoints, and with circuit breakers
// that are not closed.
func printAvailability(out *errorWriter, e *snapshot.Explanation) {
	i := 0
	for _, u := range e.Upstreams {
		for _, endpoint := range u.Endpoints {
			out.printf("%s\t%s %s: %s\n", first(i, "now"), u.Name, endpoint.URL, endpoint.State())
			i++
		}
	}
	for _, b := range e.Breakers {
		if b.State != "closed" {
			out.printf("%s\t%s: circuit breaker %s, %s\n", first(i, "now"), strings.TrimSpace(b.Upstream+" "+b.Endpoint), b.State, b.Reason)
			i++
		}
	}
}

// first is the label of a list: it stands before the first item only.
func first(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// errorWriter keeps the first error, so that printing reads straight.
type errorWriter struct {
	w   io.Writer
	err error
}

func (o *errorWriter) printf(format string, args ...any) {
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, format, args...)
	}
}
