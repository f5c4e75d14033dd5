package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/config"
)

func newValidate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [-c FILE]",
		Short: "Build everything without serving, and tell each problem",
		Args:  noArguments,
	}
	flag := configFlag(cmd, "configuration `FILE` (default sluice.yaml, else "+systemFile+")")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file, err := configFile(*flag)
		if err != nil {
			return err
		}
		compiled, err := compile(cmd.ErrOrStderr(), file, config.Environment{Stat: os.Stat})
		if err != nil {
			return err
		}
		gateway := compiled.Gateway
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %s, %s, %s\n", file, count(len(gateway.Listeners), "listener"), count(len(gateway.Routes), "route"), count(len(gateway.Upstreams), "upstream"))
		return err
	}
	return cmd
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
