package main

import (
	"errors"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/model"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

// status is what the command gathers from the admin API.
type status struct {
	Revision  snapshot.Revision         `json:"revision"`
	Listeners []snapshot.ListenerStatus `json:"listeners"`
	Upstreams []upstream.Status         `json:"upstreams"`
	Problems  []model.Problem           `json:"problems"`
}

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show listeners, upstreams and endpoints of the running gateway",
		Args:  noArguments,
	}
	admin := adminFlag(cmd)
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		var s status
		gateway, err := admin()
		if err != nil {
			return err
		}
		for _, read := range []struct {
			path string
			into any
		}{
			{"/_gateway/config", &s.Revision}, {"/_gateway/listeners", &s.Listeners}, {"/_gateway/upstreams", &s.Upstreams}, {"/_gateway/problems", &s.Problems},
		} {
			if err := gateway.get(cmd, read.path, nil, read.into); err != nil {
				return err
			}
		}
		if format == "json" {
			return printJSON(cmd.OutOrStdout(), s)
		}
		return printStatus(cmd.OutOrStdout(), &s)
	}
	return cmd
}

func printStatus(w io.Writer, s *status) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	out := &errorWriter{w: table}
	out.printf("revision %d from %s, %s, sha256 %.12s\n", s.Revision.Number, s.Revision.Source, s.Revision.Time.Format(time.RFC3339), s.Revision.SHA256)
	out.printf("\nLISTENER\tADDRESS\tCONNECTIONS\n")
	for _, l := range s.Listeners {
		out.printf("%s\t%s\t%d\n", l.Name, l.Address, l.Connections)
	}
	printCertificates(out, s.Listeners)
	if len(s.Upstreams) > 0 {
		out.printf("\nUPSTREAM\tENDPOINT\tWEIGHT\tVERSION\tACTIVE\tREQUESTS\tFAILURES\n")
	}
	for _, u := range s.Upstreams {
		for _, e := range u.Endpoints {
			out.printf("%s\t%s\t%d\t%s\t%d\t%d\t%d\n", u.Name, e.URL, e.Weight, e.Version, e.Active, e.Requests, e.Failures)
		}
	}
	if len(s.Problems) > 0 {
		out.printf("\nPROBLEMS\n")
		for _, p := range s.Problems {
			out.printf("%s\n", p.Error())
		}
	}
	return errors.Join(out.err, table.Flush())
}

// printCertificates prints what listeners show over TLS, and when that ends.
func printCertificates(out *errorWriter, listeners []snapshot.ListenerStatus) {
	titled := false
	line := func(listener, names, origin string, end time.Time, fault string) {
		if !titled {
			out.printf("\nLISTENER\tCERTIFICATE FOR\tFROM\tUNTIL\tFAULT\n")
			titled = true
		}
		until := "none yet"
		if !end.IsZero() {
			until = end.Format(time.RFC3339)
		}
		out.printf("%s\t%s\t%s\t%s\t%s\n", listener, names, origin, until, fault)
	}
	for _, l := range listeners {
		for _, c := range l.Certificates {
			names := strings.Join(c.Names, ",")
			if c.Kind == "authorities" {
				names = "(authorities of clients)"
			}
			line(l.Name, names, c.Cert, c.NotAfter, c.Error)
		}
		for _, c := range l.ACME {
			line(l.Name, c.Domain, "ACME", c.NotAfter, c.LastError)
		}
	}
}
