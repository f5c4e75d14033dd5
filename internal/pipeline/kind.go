package pipeline

import (
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
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
	// Role is what settings mean for other middleware of a chain. nil: nothing.
	Role func(settings any) model.Role
	// Warn reports what of settings is odd, though it may be meant: these are told, and
	// nothing is refused for them. nil: nothing.
	Warn func(settings any, report model.Report)
	// Together returns what does not go together of all places of the kind in a gateway,
	// though each is sound: these are warnings, and nothing is refused for them. nil: nothing.
	Together func(g *model.Gateway) []model.Problem
	// Build makes the middleware for a place in a chain. It starts nothing.
	Build func(site *Site, settings any) Middleware
}

// Site is where a middleware is built, and what it may hold on to.
type Site struct {
	// Leases holds what outlives the snapshot, as a limit's counts.
	Leases  *lease.Set
	Gateway *model.Gateway
	Route   *model.Route
	Step    *model.Middleware
	Log     *slog.Logger
	// Decisions returns what counts a limit's decisions of one sort.
	Decisions func(limit, decision string) (count func())
	// Show takes what tells how a limit is, for people. One identity is shown once.
	Show func(identity string, status func() LimitStatus)
	// ShowKeys takes what tells how the keys of an issuer are, for the metrics. Those of one
	// URL are shown as one.
	ShowKeys func(status func() KeysStatus)
	// Guard returns what tells how much an adaptive rate may let through, by the state of
	// the upstreams that the route leads to. They show in the status of that identity.
	Guard func(identity string, s resilience.GuardSettings) (ease func(now time.Time) resilience.Ease)
}

// Identity names the middleware over reloads: by its name, or by the place where it is
// written, which no name and no route's id can make look like another. What routes leave
// out of global does not matter.
func (s *Site) Identity() string {
	switch {
	case s.Step.Name != "":
		return s.Step.Name
	case s.Step.From == "global":
		return fmt.Sprintf("%s %d of global", s.Step.Kind, s.Step.Place)
	}
	return fmt.Sprintf("%s %s %d", s.Route.ID, s.Step.Kind, s.Step.Place)
}

// Named names a middleware that has no name over reloads by one that its settings give it,
// wherever it stands: number tells it from others of that name in its route, or in global.
func (s *Site) Named(name string, number int) string {
	if s.Step.From == "global" {
		return fmt.Sprintf("%s %q %d of global", s.Step.Kind, name, number)
	}
	return fmt.Sprintf("%s %s %q %d", s.Route.ID, s.Step.Kind, name, number)
}

// NewKind returns a kind with options of type O and settings of type S. The
// fields of S are exported, since its text tells whether settings are equal.
func NewKind[O, S any](name string, options func() *O, validate func(*O, model.Report) S, build func(*Site, S) Middleware) Kind {
	return Kind{
		Name:     name,
		Options:  func() any { return options() },
		Validate: func(o any, report model.Report) any { return validate(as[*O](name, o), report) },
		Build:    func(site *Site, s any) Middleware { return build(site, as[S](name, s)) },
	}
}

// As returns the kind with a role, whatever its settings.
func (k Kind) As(role model.Role) Kind {
	k.Role = func(any) model.Role { return role }
	return k
}

// RoleOf returns a kind with settings of type S whose role is by them.
func RoleOf[S any](k Kind, role func(S) model.Role) Kind {
	k.Role = func(s any) model.Role { return role(as[S](k.Name, s)) }
	return k
}

// Warn returns a kind with settings of type S that reports what of them is odd.
func Warn[S any](k Kind, warn func(S, model.Report)) Kind {
	k.Warn = func(s any, report model.Report) { warn(as[S](k.Name, s), report) }
	return k
}

func as[T any](kind string, value any) T {
	typed, ok := value.(T)
	if !ok {
		panic(fmt.Sprintf("BUG: %s was given a %T", kind, value))
	}
	return typed
}
