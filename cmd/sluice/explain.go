package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"sluice/internal/snapshot"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain [-c FILE] METHOD URL [-H 'K: V']... [--ip ADDR]",
		Short: "Tell for one request which route takes it and why, of a file or of the running gateway",
		Args:  usageArgs(cobra.ExactArgs(2)),
	}
	file := configFlag(cmd, "configuration file; without it, ask the running gateway")
	headers := cmd.Flags().StringArrayP("header", "H", nil, "a field of the request, as 'Name: value'; may be repeated")
	ip := cmd.Flags().String("ip", "", "the address that the request comes from (default 127.0.0.1)")
	listener := cmd.Flags().String("listener", "", "the listener that it comes to (default the first)")
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
			query := url.Values{"method": {args[0]}, "url": {args[1]}, "header": *headers, "ip": {*ip}, "listener": {*listener}}
			err = admin().get(cmd, "/_gateway/explain", query, explanation)
		} else {
			var compiled *snapshot.Compiled
			if compiled, err = compile(cmd.ErrOrStderr(), *file); err == nil {
				explanation, err = compiled.Explain(request, *listener, client)
			}
		}
		switch {
		case err != nil:
			return err
		case format == "json":
			return printJSON(cmd.OutOrStdout(), explanation)
		}
		return printExplanation(cmd.OutOrStdout(), explanation)
	}
	return cmd
}

func printExplanation(w io.Writer, e *snapshot.Explanation) error {
	out := &errorWriter{w: w}
	out.printf("path         %s\n", e.Path)
	for i, candidate := range e.Candidates {
		label := "            "
		if i == 0 {
			label = "candidates  "
		}
		verdict := "matches"
		if candidate.Failed != "" {
			verdict = "no: " + candidate.Failed
		}
		out.printf("%s %s: %s\n", label, candidate.Route, verdict)
	}
	if e.Route == "" {
		out.printf("refused      %s\n", e.Refused)
		return out.err
	}
	out.printf("route        %s\n", e.Route)
	if len(e.Middleware) == 0 {
		out.printf("middleware   none\n")
	}
	for i, step := range e.Middleware {
		label := "            "
		if i == 0 {
			label = "middleware  "
		}
		out.printf("%s %d. %s (%s)\n", label, i+1, step.Kind, step.From)
	}
	destination := e.Destination.Target
	if e.Destination.Upstream != "" {
		destination = e.Destination.Upstream + ": " + destination
	}
	out.printf("destination  %s %s\n             because: %s\n", e.Destination.Kind, destination, e.Destination.Reason)
	return out.err
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
