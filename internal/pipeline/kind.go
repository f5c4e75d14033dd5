package pipeline

import (
	"fmt"

	"sluice/internal/model"
)

// Kind is one kind of middleware: how its options are decoded and validated,
// and how it is built from what they mean. The options are decoded and never
// run; the settings run and are never decoded.
type Kind struct {
	Name string
	// Options returns a pointer to a new options struct, with defaults in it.
	Options func() any
	// Validate turns decoded options into immutable settings, or reports
	// problems; then the settings are not used.
	Validate func(options any, report model.Report) any
	// Build makes the middleware. It starts nothing.
	Build func(settings any) Middleware
}

// NewKind returns a kind with options of type O and settings of type S. The
// fields of S are exported, since its text tells whether settings are equal.
func NewKind[O, S any](name string, options func() *O, validate func(*O, model.Report) S, build func(S) Middleware) Kind {
	return Kind{
		Name:     name,
		Options:  func() any { return options() },
		Validate: func(o any, report model.Report) any { return validate(as[*O](name, o), report) },
		Build:    func(s any) Middleware { return build(as[S](name, s)) },
	}
}

func as[T any](kind string, value any) T {
	typed, ok := value.(T)
	if !ok {
		panic(fmt.Sprintf("BUG: %s was given a %T", kind, value))
	}
	return typed
}
