package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [-c FILE]",
		Short: "Build everything without serving, and tell each problem",
		Args:  usageArgs(cobra.NoArgs),
	}
	flag := configFlag(cmd, "configuration file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file, err := configFile(*flag)
		if err != nil {
			return err
		}
		compiled, err := compile(cmd.ErrOrStderr(), file)
		if err != nil {
			return err
		}
		gateway := compiled.Gateway
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %d listeners, %d routes, %d upstreams\n", file, len(gateway.Listeners), len(gateway.Routes), len(gateway.Upstreams))
		return err
	}
	return cmd
}
