// Package router compiles routes to a matcher and tells which route takes a
// request. It neither reads documents nor serves: it sees validated routes and
// requests whose path is canonical already, and answers with an index.
//
// # Order
//
// The unit of matching is an entry: a route with one of its hosts, or with any
// host where it names none. Entries stand in one total order, and a request
// goes to the first entry that fits it:
//
//  1. smaller priority;
//  2. exact host, wildcard host (longer suffix first), any host;
//  3. exact path, pattern, prefix (longer first), regex, no path condition;
//     among patterns the one with more literal segments (the empty one after a
//     last slash is literal), then the one that, segment by segment from the
//     left, has literal text before a parameter before {rest...};
//  4. with methods before without;
//  5. more header, then more query, then more cookie conditions, then with
//     client addresses before without;
//  6. the order in the documents.
//
// A route with several hosts so has several places; Routes lists it once, at
// the first of them. Explain shows it at the place that counts for the request.
//
// # Paths
//
// A prefix takes whole segments: /api takes /api, /api/ and /api/x, not /apix.
// Written with a last slash, /api/ takes what begins with it and not /api
// itself, just as /api/{rest...} does; / takes every path. A parameter takes
// one segment and is never empty; a rest takes what follows its slash, maybe
// nothing. The target of OPTIONS * is no path: only routes without a path
// condition take it.
package router

import (
	"net/netip"

	"sluice/internal/message"
	"sluice/internal/model"
)

// Router is a compiled route table. It never changes and is safe for
// concurrent use.
type Router struct {
	routes []*model.Route // in matching order
	plans  []*plan        // of each of routes

	nodes   []node        // of all path trees; the first is unused
	entries []entry       // in the order of the nodes whose lists they form
	text    string        // of the ways between nodes, and of hosts
	more    []*conditions // of entries that have any; the first has none
	shapes  []shape       // which segments are parameters; the first has none
	tables  []table       // of hosts that have others than a path tree
	forks   index         // children of nodes that have many, by their first segment
	any     uint32        // place of any host
	exact   index         // places of exact hosts
	wild    index         // places of wildcard hosts, by their suffix with its dot
	// wildLengths are the lengths of suffixes that occur, the last bit for all
	// that are longer: the others need no look-up.
	wildLengths lengths
	wildBest    uint32 // rank of the first entry of all wildcard hosts
}

// Result says which route takes a request.
type Result struct {
	Index  int           // into Routes; -1: none
	Params []model.Param // of the route's pattern, as the path has them: percent-encoded
	// Allow is set when none fits but some would with another method: the
	// methods of those, sorted, for the Allow field of a 405 (RFC 9110 10.2.1).
	Allow []string
}

// Compile builds a router. Two routes of equal priority and equal match whose
// listeners overlap are a problem at the later one; a route that can never match is a
// warning (see the shadow type for what is found). The router is usable
// either way. Routes must be valid as package model has it: Compile panics on
// a condition without a check. all are the names of all listeners, where they
// are known: a route at each of them may shadow one that names none.
func Compile(routes []*model.Route, all ...string) (*Router, []model.Problem) {
	b := newBuilder(routes, all)
	b.place()
	found := b.conflicts()
	found = append(found, b.insert()...)
	return b.freeze(), sorted(found)
}

// Routes returns the routes in matching order. The list belongs to the router.
func (r *Router) Routes() []*model.Route { return r.routes }

// Match returns the route that takes a request which came in at a listener
// from a client. A CORS preflight goes by the method that it asks about, HEAD
// follows routes that list GET. Without parameters it allocates nothing,
// unless the host has upper-case letters or a regex looks at an escaped query.
//
// A look-up visits each node of a path tree at most once, as a node stands for
// one reading of the path only, and leaves out every subtree whose first entry
// comes after the best one found. So its work is bounded by the nodes that
// fit a beginning of the path, and never grows with the ways to read it.
// Routes of one host that have a regex, no path condition, or the same path
// and differ in their other conditions only, are tried one by one.
func (r *Router) Match(request *message.Request, listener string, client netip.Addr) Result {
	s := search{router: r, request: request, listener: listener, client: client, best: none}
	s.method, s.bit = asked(request)
	s.run()
	if e := s.found; e != nil {
		return Result{Index: int(e.index), Params: r.shapes[e.shape].params(request.Path)}
	}
	if s.denied {
		return Result{Index: -1, Allow: s.allow()}
	}
	return Result{Index: -1}
}
