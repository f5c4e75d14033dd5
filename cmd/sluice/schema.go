package main

import (
	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/snapshot"
)

func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long:  "Print the JSON Schema of the configuration, made from the code; with --markdown the reference for people.",
		Args:  noArguments,
	}
	markdown := cmd.Flags().Bool("markdown", false, "print the configuration reference in Markdown instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		text := snapshot.Schema(app.Kinds())
		if *markdown {
			text = snapshot.Reference(app.Kinds())
		}
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	return cmd
}
