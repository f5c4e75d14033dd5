package external

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/canonical"
	"sluice/internal/keyed"
	"sluice/internal/pipeline"
)

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

func (h hasher) sum() (d keyed.Digest) {
	h.Sum(d[:0])
	return d
}

// part is something of a request that decisions depend on.
type part struct{ Source, Name string }

const (
	ofConsumer = "consumer"
	ofBody     = "body" // what the service is told of it
)

// parsePart reads one as it is written.
func parsePart(text string) (part, bool) {
	source, name, named := strings.Cut(text, ":")
	switch source {
	case "method", "host", "path", "query", "client_ip", "route", ofConsumer, ofBody:
		return part{Source: source}, !named
	case "header", "cookie":
		return part{source, name}, httpguts.ValidHeaderFieldName(name)
	}
	return part{}, false
}

// keyOf is what a decision about an exchange is remembered under.
func keyOf(x *pipeline.Exchange, parts []part, body *copied) keyed.Digest {
	h := newHash()
	for i := range parts {
		if parts[i].Source == ofBody {
			h.list([]string{body.text, body.partially()})
			continue
		}
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
	case ofConsumer:
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
