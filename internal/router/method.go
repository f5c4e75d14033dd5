package router

import (
	"slices"

	"sluice/internal/message"
)

// methods is a set of methods. Those that are not standard share one bit and
// are told apart by name.
type methods uint16

const (
	get methods = 1 << iota
	head
	post
	put
	patch
	del
	options
	trace
	connect
	otherMethod

	anyMethod = ^methods(0) // has bits that no listed method has
)

var standard = [...]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}

func methodBit(method string) methods {
	switch method {
	case "GET":
		return get
	case "HEAD":
		return head
	case "POST":
		return post
	case "PUT":
		return put
	case "PATCH":
		return patch
	case "DELETE":
		return del
	case "OPTIONS":
		return options
	case "TRACE":
		return trace
	case "CONNECT":
		return connect
	}
	return otherMethod
}

// methodSet returns the set that a route lists, and the names in it that are
// not standard, sorted. None listed is any; GET brings HEAD with it.
func methodSet(listed []string) (methods, []string) {
	if len(listed) == 0 {
		return anyMethod, nil
	}
	var set methods
	var others []string
	for _, method := range listed {
		bit := methodBit(method)
		set |= bit
		if bit == otherMethod {
			others = append(others, method)
		}
	}
	if set&get != 0 {
		set |= head
	}
	slices.Sort(others)
	return set, slices.Compact(others)
}

// names are the methods of a set and further ones, sorted.
func (m methods) names(others []string) []string {
	list := slices.Clone(others)
	for i, name := range standard {
		if m&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// asked returns the method by which a request is matched: for a CORS preflight
// (Fetch standard 3.2.2) the one that it asks about.
func asked(request *message.Request) (string, methods) {
	if request.Method == "OPTIONS" && request.Fields.Has(message.Origin) {
		if method := request.Fields.Get(message.AccessControlRequestMethod); method != "" {
			return method, methodBit(method)
		}
	}
	return request.Method, methodBit(request.Method)
}
