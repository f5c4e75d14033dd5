package external

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/canonical"
	"sluice/internal/pipeline"
)

// digest is what a decision is remembered under: no two requests that differ in what
// it is of share one.
type digest [sha256.Size]byte

// hasher makes a digest of texts, each of which counts as one.
type hasher struct{ hash.Hash }

func newHash() hasher { return hasher{sha256.New()} }

func (h hasher) text(s string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(s)))
	h.Write(length[:])
	h.Write([]byte(s))
}

// list is several texts, also none.
func (h hasher) list(texts []string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(texts)))
	h.Write(length[:])
	for _, s := range texts {
		h.text(s)
	}
}

func (h hasher) sum() (d digest) {
	h.Sum(d[:0])
	return d
}

// part is something of a request that decisions depend on.
type part struct{ Source, Name string }

// parsePart reads one as it is written.
func parsePart(text string) (part, bool) {
	source, name, named := strings.Cut(text, ":")
	switch source {
	case "method", "host", "path", "query", "client_ip", "route", "consumer":
		return part{Source: source}, !named
	case "header", "cookie":
		return part{source, name}, httpguts.ValidHeaderFieldName(name)
	}
	return part{}, false
}

// keyOf is what a decision about an exchange is remembered under.
func keyOf(x *pipeline.Exchange, parts []part) digest {
	h := newHash()
	for i := range parts {
		h.list(parts[i].values(x))
	}
	return h.sum()
}

// values are what an exchange has of a part; none where it has none.
func (p *part) values(x *pipeline.Exchange) (values []string) {
	switch p.Source {
	case "method":
		return []string{x.Request.Method}
	case "host":
		return []string{canonical.Host(x.Request.Host)}
	case "path":
		return []string{x.Request.Path}
	case "query":
		return []string{x.Request.Query}
	case "client_ip":
		return []string{x.ClientText()}
	case "route":
		return []string{x.Route.ID}
	case "consumer":
		return []string{x.Consumer}
	case "header":
		for value := range x.Request.Fields.Values(p.Name) {
			values = append(values, value)
		}
	case "cookie":
		for value := range x.Request.Fields.Cookies(p.Name) {
			values = append(values, value)
		}
	default:
		panic("BUG: no part of a request is called " + p.Source)
	}
	return values
}

// cache remembers decisions, as many as it may: the one that was asked for longest ago
// makes room.
type cache struct {
	most int

	mu      sync.Mutex
	entries map[digest]*list.Element
	order   *list.List // of *entry, the last one used in front
}

type entry struct {
	key      digest
	decision *decision
	until    time.Time
}

func newCache(most int) *cache {
	return &cache{most: most, entries: map[digest]*list.Element{}, order: list.New()}
}

// get returns a decision that still holds, or nil.
func (c *cache) get(key digest, now time.Time) *decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[key]
	if element == nil {
		return nil
	}
	e := entryOf(element)
	if !now.Before(e.until) {
		c.drop(element)
		return nil
	}
	c.order.MoveToFront(element)
	return e.decision
}

// put remembers a decision.
func (c *cache) put(key digest, d *decision, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.entries[key]; element != nil {
		c.drop(element)
	}
	if len(c.entries) >= c.most {
		c.drop(c.order.Back())
	}
	c.entries[key] = c.order.PushFront(&entry{key, d, until})
}

func (c *cache) drop(element *list.Element) {
	delete(c.entries, entryOf(element).key)
	c.order.Remove(element)
}

func entryOf(element *list.Element) *entry {
	e, ok := element.Value.(*entry)
	if !ok {
		panic("BUG: something else among the decisions")
	}
	return e
}
