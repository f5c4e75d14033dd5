// Package file builds on provider, but stands beside upstream.
package file

import (
	_ "sluice/internal/provider"
	_ "sluice/internal/upstream" // want layer
)
