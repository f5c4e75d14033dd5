// Package gatewaytest is for tests: it may import anything, and know net/http.
package gatewaytest

import (
	"net/http/httptest"

	"sluice/internal/proxy"
	"sluice/internal/server"
)

// Start starts.
func Start(any) *httptest.Server { _, _ = proxy.Serve, server.Serve; return nil }
