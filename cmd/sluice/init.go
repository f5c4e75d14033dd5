package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
)

//go:embed starter.yaml
var starter []byte

func newInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a small commented starter configuration",
		Long:  "Write a small commented starter configuration to FILE, sluice.yaml by default. A file that is there is never overwritten.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &usageError{fmt.Errorf("'sluice init' writes one file, not %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			file := "sluice.yaml"
			if len(args) > 0 {
				file = args[0]
			}
			if err := writeNew(file, starter); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\ncheck it: sluice validate -c %s\nserve it: sluice run -c %s\n", file, file, file)
			return err
		},
	}
}

// writeNew writes a file that is not there yet.
func writeNew(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a configuration others may read, like any other
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already and stays as it is; name another file", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
