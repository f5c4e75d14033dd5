package app

import (
	"sluice/internal/middleware/access"
	"sluice/internal/middleware/auth"
	"sluice/internal/middleware/edit"
	"sluice/internal/middleware/external"
	"sluice/internal/middleware/grpc"
	"sluice/internal/middleware/limit"
	"sluice/internal/middleware/login"
	"sluice/internal/pipeline"
)

// Kinds is the table of the kinds of middleware: all there are, in the order in
// which documents list them.
func Kinds() []pipeline.Kind {
	return []pipeline.Kind{
		edit.Headers(),
		limit.Rate(),
		limit.Concurrency(),
		limit.Body(),
		auth.JWT(),
		login.Kind(),
		auth.APIKeys(),
		auth.Basic(),
		auth.HMAC(),
		auth.Certificate(),
		access.IPFilter(),
		external.Auth(),
		access.RBAC(),
		access.CORS(),
		grpc.Web(),
	}
}
