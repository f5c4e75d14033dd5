package gatewaytest

import (
	"cmp"
	"os"
)

// EngineVariable is the environment variable that says which engine the
// gateways of tests run on.
const EngineVariable = "SLUICE_TEST_ENGINE"

// The engines that gateways of tests can run on. Standard are the adapters of
// net/http; no configuration has them.
const (
	Loop      = "loop"
	Goroutine = "goroutine"
	Standard  = "standard"
)

// Engine is the engine that gateways of tests run on.
func Engine() string { return cmp.Or(os.Getenv(EngineVariable), Loop) }
