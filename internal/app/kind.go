package app

import (
	"os"

	"sluice/internal/config"
	"sluice/internal/middleware/access"
	"sluice/internal/middleware/edit"
	"sluice/internal/middleware/limit"
	"sluice/internal/pipeline"
)

// Kinds is the table of the kinds of middleware: all there are, in the order in
// which documents list them.
func Kinds() []pipeline.Kind {
	return []pipeline.Kind{
		edit.Headers(),
		limit.Body(),
		access.IPFilter(),
	}
}

// Environment is the process's own: its variables and its files.
func Environment() config.Environment {
	return config.Environment{LookupEnv: os.LookupEnv, ReadFile: os.ReadFile}
}
