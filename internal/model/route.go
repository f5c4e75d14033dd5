package model

import (
	"net/netip"
	"regexp"
	"time"
)

// Route is a match, a chain of middleware and a destination. Exactly one of
// Upstream, Split, Redirect and Respond is set.
type Route struct {
	ID        string
	Priority  int      // smaller first
	Listeners []string // nil: all
	Match     Match
	Chain     []Middleware // global first, then the route's, outermost first
	Skipped   []Middleware // of global, which the route leaves out

	Upstream *Upstream
	Split    *Split
	Redirect *Redirect
	Respond  *Respond

	StripPrefix bool // drops Match.Path's prefix before a base path is put in front
	Rewrite     Rewrite
	Timeouts    RouteTimeouts
	Retry       *Retry // nil: a request is repeated on a fresh connection alone
	Position    Position
}

// Rewrite changes what the endpoint is asked.
type Rewrite struct {
	Path *Template // nil: unchanged
	Host string    // preserve, upstream, or empty where Literal is set
	// Literal is the host where one is written out.
	Literal *Template
}

// Redirect answers with a Location.
type Redirect struct {
	To     Template
	Status int
}

// Respond answers with a fixed response.
type Respond struct {
	Status int
	Body   *Template // nil: none
	Fields []FieldTemplate
}

// FieldTemplate is a field whose value may have placeholders.
type FieldTemplate struct {
	Name  string
	Value Template
}

// RouteTimeouts bound an exchange. 0 means without bound.
type RouteTimeouts struct {
	Response time.Duration // from the end of the request to the head of the response
	Idle     time.Duration // without a byte in either direction
	// IdleStream is Idle for event streams and upgraded connections.
	IdleStream time.Duration
	Total      time.Duration
}

// Match is what a request must be for a route to take it. All conditions must
// hold; an empty one always does.
type Match struct {
	Hosts    []string // lower case, no last dot; "*.suffix" for any host below suffix
	Path     Path
	Methods  []string // upper case as written; GET includes HEAD
	Headers  []Condition
	Query    []Condition
	Cookies  []Condition
	ClientIP []netip.Prefix // any of them
}

// Condition looks at the first value of a header, query parameter or cookie.
// Exactly one of the three checks is set.
type Condition struct {
	Name    string
	Value   *string        // it must be this
	Regex   *regexp.Regexp // or match this
	Present *bool          // or be there (true), or not (false)
}

// PathKind is the kind of a path condition.
type PathKind string

// The kinds of path condition.
const (
	AnyPath     PathKind = "any"
	ExactPath   PathKind = "exact"
	PatternPath PathKind = "pattern"
	PrefixPath  PathKind = "prefix" // whole segments
	RegexPath   PathKind = "regex"
)

// Path is a path condition. Literal text is in canonical form.
type Path struct {
	Kind     PathKind
	Text     string         // canonical; of a pattern with {name} and {name...} whatever way it was written
	Segments []Segment      // of a pattern
	Regex    *regexp.Regexp // of a regex
}

// Segment is one segment of a pattern: literal text, or a parameter.
type Segment struct {
	Literal string // empty where Param is set
	Param   string // the parameter's name; "*" for an unnamed last one
	Rest    bool   // it takes all that is left, maybe nothing; only the last
}

// String is what people and metrics see of a path condition.
func (p Path) String() string {
	if p.Kind == AnyPath {
		return ""
	}
	return p.Text
}

// Middleware is one step of a chain.
type Middleware struct {
	Kind     string
	Name     string // of a named one
	From     string // global, route, with the name: "global per-client"
	Place    int    // in the list where it is written
	Role     Role   // in a chain
	Settings any    // the kind's own validated, immutable value
	Position Position
}

// Param is a path parameter of a request: the text that it took of the
// canonical path, still percent-encoded.
type Param struct {
	Name, Value string
}
