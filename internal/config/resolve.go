package config

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// Result is what documents come to.
type Result struct {
	Gateway  *model.Gateway // nil when a problem is more than a warning
	Problems []model.Problem
	// Files are absolute: those read through ${file:}, whose content may change, and
	// certificates that are at fault, which may be mended.
	Files []string

	sources []*source // the documents, as far as they could be parsed
}

// Resolve turns documents into a gateway. It reports every problem that it
// finds, in the order of their positions; documents in the order given.
func Resolve(documents []Document, kinds []Kind, env Environment) Result {
	r := &resolver{
		out: newCollector(), kinds: kinds, stat: env.Stat,
		listeners: map[string]place{}, stores: map[string]place{}, upstreams: map[string]*upstreamUse{}, gateway: &model.Gateway{},
		filesSeen: map[string]bool{}, blocks: map[string]place{}, names: map[string]place{}, ids: map[string]place{}, told: map[place]bool{},
	}
	r.chains = chainBuilder{r: r, named: map[string]*definition{}, used: map[string]bool{}}
	env = env.WithDefaults()
	r.inspect, r.now = env.Inspect, env.Now
	for i, d := range documents {
		r.read(d, i, env)
	}
	if len(documents) == 0 {
		r.out.add(place{}, "there is no document", "")
	} else if len(r.documents) > 0 {
		r.resolve()
	}
	result := Result{Problems: r.out.sorted(), Files: r.files, sources: r.sources}
	if r.out.faults == 0 {
		result.Gateway = r.gateway
	}
	return result
}

// resolver joins decoded documents.
type resolver struct {
	out       *collector
	kinds     []Kind
	stat      func(string) (fs.FileInfo, error) // nil: places are not looked at
	inspect   func(string) ([]byte, error)
	now       func() time.Time
	sources   []*source
	documents []*document
	files     []string
	filesSeen map[string]bool
	gateway   *model.Gateway

	// incomplete: a document or a block could not be read, so that a name that
	// is missing may be defined there.
	incomplete bool

	storeUses []parameterUse // in options of middleware

	blocks          map[string]place // by key
	names           map[string]place // of listeners, upstreams and middleware, by what they are and name
	listeners       map[string]place
	listenerNames   []string
	stores          map[string]place
	storeNames      []string
	upstreams       map[string]*upstreamUse
	upstreamNames   []string
	middlewareNames []string
	chains          chainBuilder
	global          []link
	told            map[place]bool // which of those that go by who the client is know it on some route
	untold          []link         // those that do not, on some route
	ids             map[string]place
	derived         []*model.Route // whose ids are derived
}

// read decodes one document.
func (r *resolver) read(d Document, order int, env Environment) {
	src, ok := parse(d, order, r.out)
	r.sources = append(r.sources, src)
	if !ok {
		r.incomplete = true
		return
	}
	decoded := &document{}
	decoded.SetDefaults()
	decoded.locate(place{src: src})
	if src.root != nil && !isNullNode(src.root) {
		decoder := newDecoder(src, r.kinds, env, r.out, r.file)
		decoder.into(src.root, decoded)
		r.storeUses = append(r.storeUses, decoder.stores...)
		if decoder.left < 0 { // it is too much to go on with
			r.incomplete = true
			return
		}
		r.incomplete = r.incomplete || unreadable(decoder, src.root)
	}
	r.documents = append(r.documents, decoded)
}

// unreadable tells whether a document or a block of names is no mapping.
func unreadable(d *decoder, root *yaml.Node) bool {
	root, ok := d.follow(root)
	if !ok || root.Kind != yaml.MappingNode {
		return true
	}
	for _, block := range []string{"listeners", "middleware", "stores", "upstreams"} {
		if n := find(root, block); n != root && n.Kind != yaml.MappingNode && !isNullNode(n) {
			return true
		}
	}
	return false
}

func (r *resolver) file(path string) {
	if !r.filesSeen[path] {
		r.filesSeen[path] = true
		r.files = append(r.files, path)
	}
}

func (r *resolver) resolve() {
	for _, d := range r.documents {
		r.define(d)
	}
	for _, use := range r.storeUses {
		r.storeNamed(use.place, use.name)
	}
	for _, d := range r.documents {
		r.storesOf(d)
		r.listenersOf(d)
		r.upstreamsOf(d)
	}
	for _, d := range r.documents {
		r.fallbacks(d)
	}
	r.fallbackCycles()
	for _, d := range r.documents {
		r.blocksOf(d)
	}
	if len(r.listeners) == 0 && !r.incomplete {
		r.out.add(place{src: r.documents[0].src}, "no listener is defined, so nothing would listen", `write listeners: {web: {address: ":8080"}}`)
	}
	r.defaultBlocks()
	for _, d := range r.documents {
		if d.has("global") != nil {
			r.global = r.chains.chain(d.Global, "global")
		}
	}
	for _, d := range r.documents {
		r.routesOf(d)
	}
	r.nameRoutes()
	r.warnUntold()
	r.unused()
	slices.SortStableFunc(r.gateway.Upstreams, func(a, b *model.Upstream) int { return boolInt(isURL(a.Name)) - boolInt(isURL(b.Name)) })
}

// has returns the node of a top-level key's value, nil where it is not written.
func (d *document) has(key string) *yaml.Node {
	if d.node == nil {
		return nil
	}
	if n := find(d.node, key); n != d.node {
		return n
	}
	return nil
}

// blocksOf takes the blocks that only one document may have.
func (r *resolver) blocksOf(d *document) {
	g := r.gateway
	for _, block := range []struct {
		key  string
		take func()
	}{
		{"engine", func() { g.Engine = d.Engine }},
		{"drain_timeout", func() { g.DrainTimeout = time.Duration(d.DrainTimeout) }},
		{"response_time_header", func() { g.ResponseTimeHeader = d.ResponseTime }},
		{"admin", func() { r.admin(&d.Admin) }},
		{"access_log", func() { r.accessLog(&d.AccessLog) }},
		{"metrics", func() { r.metrics(&d.Metrics) }},
		{"global", func() {}},
	} {
		n := d.has(block.key)
		if n == nil || isNullNode(n) {
			continue
		}
		where := place{d.src, n}
		if first, ok := r.blocks[block.key]; ok {
			r.out.add(where, fmt.Sprintf("%s is defined in two documents: first at %s", block.key, first.position()), "remove one of them")
			continue
		}
		r.blocks[block.key] = where
		block.take()
	}
}

// defaultBlocks fills in what no document has said.
func (r *resolver) defaultBlocks() {
	var defaults document
	defaults.SetDefaults()
	g := r.gateway
	if _, ok := r.blocks["engine"]; !ok {
		g.Engine = defaults.Engine
	}
	if _, ok := r.blocks["drain_timeout"]; !ok {
		g.DrainTimeout = time.Duration(defaults.DrainTimeout)
	}
	if _, ok := r.blocks["admin"]; !ok {
		defaults.Admin.src = r.documents[0].src
		r.admin(&defaults.Admin)
	}
	if _, ok := r.blocks["access_log"]; !ok {
		r.accessLog(&defaults.AccessLog)
	}
	if _, ok := r.blocks["metrics"]; !ok {
		r.metrics(&defaults.Metrics)
	}
}

// define registers the names of a document's blocks, so that references find
// them whatever the order of the documents.
func (r *resolver) define(d *document) {
	for i := range d.Listeners {
		if e := &d.Listeners[i]; r.named("listener", e.Key, e.key) {
			r.listeners[e.Key] = e.key
			r.listenerNames = append(r.listenerNames, e.Key)
		}
	}
	for i := range d.Stores {
		if e := &d.Stores[i]; r.named("store", e.Key, e.key) {
			r.stores[e.Key] = e.key
			r.storeNames = append(r.storeNames, e.Key)
		}
	}
	for i := range d.Upstreams {
		if e := &d.Upstreams[i]; r.named("upstream", e.Key, e.key) {
			r.upstreams[e.Key] = &upstreamUse{key: e.key}
			r.upstreamNames = append(r.upstreamNames, e.Key)
		}
	}
	for i := range d.Middleware {
		if e := &d.Middleware[i]; r.named("middleware", e.Key, e.key) {
			r.chains.named[e.Key] = &e.Value
			r.middlewareNames = append(r.middlewareNames, e.Key)
		}
	}
}

// named notes a name of a kind of thing. False: it is taken.
func (r *resolver) named(what, name string, key place) bool {
	if first, ok := r.names[what+" "+name]; ok {
		r.out.add(key, fmt.Sprintf("the %s %s is defined in two documents: first at %s", what, name, first.position()), "rename or remove one of them")
		return false
	}
	r.names[what+" "+name] = key
	switch {
	case isURL(name):
		r.out.add(key, fmt.Sprintf("the %s %s is named like a URL", what, short(name)), "give it a plain name")
	case strings.ContainsFunc(name, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune(`"'{}[],`, c)
	}) || len(name) > 128:
		r.out.add(key, fmt.Sprintf("the %s %s has a name with white space, quotes, brackets or commas, or of more than 128 characters", what, short(name)), "use letters, digits, - _ and .")
	}
	return true
}

// unused warns of what is defined and used nowhere. Of a faulty document that is
// not known.
func (r *resolver) unused() {
	if r.out.faults > 0 {
		return
	}
	for _, d := range r.documents {
		for i := range d.Upstreams {
			e := &d.Upstreams[i]
			if use := r.upstreams[e.Key]; use.key == e.key && !use.used {
				r.out.warn(e.key, fmt.Sprintf("no route uses the upstream %s", e.Key), "")
			}
		}
		for i := range d.Middleware {
			e := &d.Middleware[i]
			if r.chains.named[e.Key] == &e.Value && !r.chains.used[e.Key] {
				hint := ""
				if e.Value.names != nil {
					hint = "its placeholders are not checked, since that needs the path of a route"
				}
				r.out.warn(e.key, fmt.Sprintf("nothing uses the middleware %s", e.Key), hint)
			}
		}
	}
}
