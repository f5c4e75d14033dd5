package router

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
)

func compile(patterns ...string) *Router {
	routes := make([]*model.Route, len(patterns))
	for i, text := range patterns {
		path := model.Path{Kind: model.PatternPath, Text: text}
		for part := range strings.SplitSeq(text[1:], "/") {
			if strings.HasPrefix(part, "{") {
				path.Segments = append(path.Segments, model.Segment{Param: strings.Trim(part, "{}.")})
			} else {
				path.Segments = append(path.Segments, model.Segment{Literal: part})
			}
		}
		routes[i] = &model.Route{ID: text, Match: model.Match{Path: path}}
	}
	r, _ := Compile(routes)
	return r
}

func visits(r *Router, path string) int {
	s := search{router: r, request: &message.Request{Method: "GET", Path: path}, best: none}
	s.method, s.bit = asked(s.request)
	s.run()
	return s.visited
}

// Tables that make a matcher which tries again from each choice take time
// exponential in the length of the path.
func TestBacktrackingIsBounded(t *testing.T) {
	for _, depth := range []int{10, 20, 40, 80, 160} {
		// One parameter anywhere, and a last segment that fits nowhere.
		var patterns []string
		for i := range depth {
			patterns = append(patterns, strings.Repeat("/a", i)+"/{x}"+strings.Repeat("/a", depth-i-1)+"/z")
		}
		path := strings.Repeat("/a", depth) + "/y"
		r := compile(patterns...)
		if got := visits(r, path); got > 4*depth || got < depth {
			t.Errorf("depth %d: %d nodes visited for one parameter", depth, got)
		}
		// Nothing but parameters from anywhere on.
		for i := range depth {
			patterns = append(patterns, strings.Repeat("/a", i)+strings.Repeat("/{x}", depth-i)+"/z")
		}
		r = compile(patterns...)
		if got := visits(r, path); got > depth*depth+4*depth || got < depth {
			t.Errorf("depth %d: %d nodes visited for a tail of parameters", depth, got)
		}
	}
}

// Even where each of depth segments can be read in two ways no node is
// visited twice, however long the path is.
func TestNoNodeIsVisitedTwice(t *testing.T) {
	const depth = 10
	var patterns []string
	for bits := range 1 << depth {
		text := ""
		for i := range depth {
			text += [2]string{"/a", fmt.Sprintf("/{x%d}", i)}[bits>>i&1]
		}
		patterns = append(patterns, text+"/z")
	}
	r := compile(patterns...)
	for _, more := range []int{0, 1, 100, 10_000} {
		path := strings.Repeat("/a", depth) + "/y" + strings.Repeat("/a", more)
		if got := visits(r, path); got > len(r.nodes)+len(r.entries) {
			t.Errorf("path of %d segments: %d visits to %d places", depth+1+more, got, len(r.nodes)+len(r.entries))
		}
	}
	// Where the best entry fits, the others are left out.
	if got := visits(r, strings.Repeat("/a", depth)+"/z"); got > depth+2 {
		t.Errorf("%d visits to find the first of all entries", got)
	}
}
