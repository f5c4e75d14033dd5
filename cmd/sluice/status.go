package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

// status is what the command gathers from the admin API.
type status struct {
	Revision  snapshot.Revision         `json:"revision"`
	Listeners []snapshot.ListenerStatus `json:"listeners"`
	Upstreams []upstream.Status         `json:"upstreams"`
	Breakers  []upstream.BreakerStatus  `json:"breakers"`
	Limits    []pipeline.LimitStatus    `json:"limits"`
	Problems  []model.Problem           `json:"problems"`
}

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show listeners, upstreams, endpoints, circuit breakers and limits of the running gateway",
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
			{"/_gateway/config", &s.Revision}, {"/_gateway/listeners", &s.Listeners}, {"/_gateway/upstreams", &s.Upstreams},
			{"/_gateway/breakers", &s.Breakers}, {"/_gateway/limits", &s.Limits}, {"/_gateway/problems", &s.Problems},
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
	printUpstreams(out, s.Upstreams)
	printBreakers(out, s.Breakers)
	printLimits(out, s.Limits)
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
			line(l.Name, names, c.Cert, c.NotAfter, certificateFault(c.Expired, c.Certificates, c.Error))
		}
		for _, c := range l.ACME {
			line(l.Name, c.Domain, "ACME", c.NotAfter, certificateFault(c.Expired, 1, c.LastError))
		}
	}
}

// certificateFault is what is wrong with a certificate, or with the first of several
// that ends.
func certificateFault(expired bool, several int, failure string) string {
	var faults []string
	switch {
	case expired && several > 1:
		faults = append(faults, "one has expired")
	case expired:
		faults = append(faults, "expired")
	}
	if failure != "" {
		faults = append(faults, failure)
	}
	return strings.Join(faults, "; ")
}

// printUpstreams prints the endpoints, and which of them get attempts.
func printUpstreams(out *errorWriter, upstreams []upstream.Status) {
	if len(upstreams) > 0 {
		out.printf("\nUPSTREAM\tENDPOINT\tWEIGHT\tVERSION\tSTATE\tLATENCY\tACTIVE\tREQUESTS\tFAILURES\n")
	}
	for _, u := range upstreams {
		if len(u.Endpoints) == 0 {
			out.printf("%s\tnone found\n", u.Name)
		}
		for _, e := range u.Endpoints {
			latency := ""
			if e.LatencyMS > 0 {
				latency = fmt.Sprintf("%.1fms", e.LatencyMS)
			}
			out.printf("%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\n", u.Name, e.URL, e.Weight, e.Version, e.State(), latency, e.Active, e.Requests, e.Failures)
		}
	}
}

// printBreakers prints the circuit breakers, and why they are as they are.
func printBreakers(out *errorWriter, breakers []upstream.BreakerStatus) {
	if len(breakers) > 0 {
		out.printf("\nBREAKER OF\tENDPOINT\tSTATE\tSINCE\tNEXT PROBE\tREQUESTS\tFAILURES\tSLOW\tREASON\n")
	}
	at := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	for _, b := range breakers {
		endpoint := cmp.Or(b.Endpoint, "(all)")
		out.printf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", b.Upstream, endpoint, b.State, at(b.Since), at(b.ProbeAt), b.Requests, b.Failures, b.Slow, b.Reason)
	}
}

// printLimits prints the limits, and how they stand.
func printLimits(out *errorWriter, limits []pipeline.LimitStatus) {
	if len(limits) > 0 {
		out.printf("\nLIMIT\tKIND\tLETS THROUGH\tKEYS\tFORGOTTEN\tRUNNING\tWAITING\tKEPT IN\n")
	}
	for i := range limits {
		l := &limits[i]
		running, waiting := "", "" // which only those have that count exchanges at once
		if l.Kind == "concurrency_limit" {
			running, waiting = strconv.Itoa(l.Running), strconv.Itoa(l.Waiting)
		}
		out.printf("%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", l.Limit, l.Kind, l.Numbers(), l.Keys, l.Evicted, running, waiting, l.Store)
	}
}
