package main

import (
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"sluice/internal/upstream"
)

func newDrain() *cobra.Command {
	return drainCommand("drain", "Let an endpoint of the running gateway get no new requests, until it is undrained")
}

func newUndrain() *cobra.Command {
	return drainCommand("undrain", "Let a drained endpoint of the running gateway get requests again")
}

// drainCommand is the command of a word of the admin API, and prints how the endpoint
// is then.
func drainCommand(word, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   word + " UPSTREAM URL",
		Short: short,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return &usageError{fmt.Errorf("'sluice %s' needs the name of an UPSTREAM and the URL of an endpoint; 'sluice status' shows them", word)}
			}
			return nil
		},
	}
	admin := adminFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		gateway, err := admin()
		if err != nil {
			return err
		}
		var endpoint upstream.EndpointStatus
		path := "/_gateway/upstreams/" + url.PathEscape(args[0]) + "/endpoints/" + word
		if err := gateway.post(cmd, path, map[string]string{"url": args[1]}, &endpoint); err != nil {
			return err
		}
		out := &errorWriter{w: cmd.OutOrStdout()}
		out.printf("%s %s: %s, %d active\n", args[0], endpoint.URL, endpoint.State(), endpoint.Active)
		return out.err
	}
	return cmd
}
