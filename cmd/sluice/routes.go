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
		var steps []string
		for _, step := range row.Middleware {
			steps = append(steps, step.Kind)
		}
		out.printf("%d\t%s\t%s\t%s\t%s\t%s\n", row.Priority, row.ID, listeners, row.Match, cmp.Or(strings.Join(steps, ","), "none"), row.Destination)
	}
	return errors.Join(out.err, table.Flush())
}
