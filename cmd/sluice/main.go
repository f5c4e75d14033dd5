// Command sluice is the gateway and the tools around it.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	command, err := root.ExecuteC()
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errTold):
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "sluice: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "sluice: %v\n", err)
	return exitFailed
}

// errTold ends a command whose failure the user has read already.
var errTold = errors.New("told")

// usageError is a wrong use of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "An API gateway in one binary",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &usageError{errors.New("a command is missing")}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(
		newRun(), newDemo(), newInit(), newValidate(), newRoutes(), newExplain(), newStatus(), newSchema(), newVersion(),
	)
	return root
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err}
		}
		return nil
	}
}

// outputFlag adds -o and returns what it was set to, once parsed.
func outputFlag(cmd *cobra.Command, fallback string, formats ...string) func() (string, error) {
	all := append([]string{fallback}, formats...)
	value := cmd.Flags().StringP("output", "o", fallback, fmt.Sprintf("output format: one of %v", all))
	return func() (string, error) {
		for _, format := range all {
			if format == *value {
				return format, nil
			}
		}
		return "", &usageError{fmt.Errorf("no output format is called %q; there are %v", *value, all)}
	}
}
