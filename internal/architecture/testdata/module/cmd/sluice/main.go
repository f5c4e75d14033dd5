// Command sluice stands above everything.
package main

import (
	"log/slog"
	"net/http"

	"sluice/internal/pipeline"
	"sluice/internal/server"
)

func main() {
	slog.SetDefault(nil) // it owns the process
	slog.Info("hello")   // want registry
	_, _, _ = http.StatusOK, pipeline.Register, server.Serve
}
