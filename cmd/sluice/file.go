package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/snapshot"
)

const systemFile = "/etc/sluice/sluice.yaml"

func configFlag(cmd *cobra.Command, help string) *string {
	return filledFlag(cmd, "config", "c", help)
}

// configFile is the file that -c names, else the first default that is there.
func configFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	for _, file := range []string{"sluice.yaml", systemFile} {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return file, nil
		}
	}
	return "", fmt.Errorf("no configuration: neither sluice.yaml nor %s is there; name one with -c, or write one with 'sluice init'", systemFile)
}

// compile reads and compiles a file, or what comes through a pipe; its problems, also the warnings, go to w.
// A refused one is errTold.
func compile(w io.Writer, file string, environment config.Environment) (*snapshot.Compiled, error) {
	documents, problems := config.LoadOnce(file)
	var compiled *snapshot.Compiled
	if !model.Refused(problems) {
		var found []model.Problem
		compiled, _, found = snapshot.Compile(documents, app.Kinds(), environment)
		problems = append(problems, found...)
	}
	for _, problem := range problems {
		config.Print(w, problem)
	}
	if model.Refused(problems) {
		return nil, errTold
	}
	return compiled, nil
}
