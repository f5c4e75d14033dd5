// Package router looks beside and above itself.
package router

import (
	_ "sluice/internal/gatewaytest" // want layer
	_ "sluice/internal/message"
	_ "sluice/internal/nowhere"  // want layer
	_ "sluice/internal/pipeline" // want layer
	_ "sluice/internal/server"   // want layer
)
