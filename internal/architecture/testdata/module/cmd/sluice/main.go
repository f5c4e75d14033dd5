// Command sluice stands above everything.
package main

import (
	"net/http"

	"sluice/internal/pipeline"
	"sluice/internal/server"
)

func main() { _, _, _ = http.StatusOK, pipeline.Register, server.Serve }
