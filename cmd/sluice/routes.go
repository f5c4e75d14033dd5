package main

import (
	"cmp"
	"errors"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/snapshot"
)

func newRoutes() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "routes [-c FILE] [-o table|json]",
		Short: "Show the route table in matching order, of a file or of the running gateway",
		Args:  noArguments,
	}
	file := configFlag(cmd, "configuration `FILE`; without it, ask the running gateway")
	admin := adminFlag(cmd)
	output := outputFlag(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		format, err := output()
		if err != nil {
			return err
		}
		var rows []snapshot.Row
		if *file == "" {
			gateway, err := admin()
			if err != nil {
				return err
			}
			if err := gateway.get(cmd, "/_gateway/routes", nil, &rows); err != nil {
				return err
			}
		} else {
			compiled, err := compile(cmd.ErrOrStderr(), *file, config.Environment{})
			if err != nil {
				return err
			}
			rows = snapshot.Table(compiled.Router)
		}
		if format == "json" {
			return printJSON(cmd.OutOrStdout(), rows)
		}
		return printRoutes(cmd.OutOrStdout(), rows)
	}
	return cmd
}

func printRoutes(w io.Writer, rows []snapshot.Row) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	out := &errorWriter{w: table}
	out.printf("PRIORITY\tROUTE\tLISTENERS\tMATCH\tMIDDLEWARE\tDESTINATION\n")
	for _, row := range rows {
		listeners := "all"
		if len(row.Listeners) > 0 {
			listeners = strings.Join(row.Listeners, ",")
		}
		chain := cmp.Or(kindsOf(row.Middleware), "none")
		if len(row.Skipped) > 0 {
			chain += " (skips " + kindsOf(row.Skipped) + ")"
		}
		out.printf("%d\t%s\t%s\t%s\t%s\t%s\n", row.Priority, row.ID, listeners, row.Match, chain, row.Destination)
	}
	return errors.Join(out.err, table.Flush())
}

// kindsOf are the kinds of steps, with commas between them.
func kindsOf(steps []snapshot.Step) string {
	kinds := make([]string, len(steps))
	for i, step := range steps {
		kinds[i] = step.Kind
	}
	return strings.Join(kinds, ",")
}
