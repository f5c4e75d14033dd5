// Package snapshot turns documents into the immutable form that serves
// requests, and keeps the one pointer to it. Compile is the part that needs
// nothing but text, for a validation; a Builder adds what lives on between
// snapshots. It reads no files and decides nothing about when to reload.
package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/router"
)

// Compiled is a valid configuration: all that can be known of it without
// acquiring anything.
type Compiled struct {
	Documents []config.Document
	Gateway   *model.Gateway
	Router    *router.Router
	SHA256    string // of the documents and of what they took in

	places map[string]model.Problem // by the address that they point at; without a message
}

// At is a problem at the place of an address that is listened on, for whoever
// knows what is wrong with it.
func (c *Compiled) At(address string) model.Problem { return c.places[address] }

// Compile resolves documents, compiles their routes, and starts nothing. The
// problems are sorted by position; with one that is more than a warning among
// them the result is nil. files are those that ${file:} names, also then: what
// is a problem may be mended in one of them.
func Compile(documents []config.Document, kinds []pipeline.Kind, environment config.Environment) (compiled *Compiled, files []string, problems []model.Problem) {
	in := inputs{}
	resolved := config.Resolve(documents, configKinds(kinds), in.record(environment))
	problems = resolved.Problems
	if resolved.Gateway == nil {
		return nil, resolved.Files, problems
	}
	var listeners []string
	for _, listener := range resolved.Gateway.Listeners {
		listeners = append(listeners, listener.Name)
	}
	table, found := router.Compile(resolved.Gateway.Routes, listeners...)
	for _, kind := range kinds {
		if kind.Together != nil {
			found = append(found, kind.Together(resolved.Gateway)...)
		}
	}
	problems = resolved.Locate(found)
	if model.Refused(problems) {
		return nil, resolved.Files, problems
	}
	return &Compiled{documents, resolved.Gateway, table, hash(documents, in), places(&resolved)}, resolved.Files, problems
}

// places are those of the addresses, with their lines.
func places(resolved *config.Result) map[string]model.Problem {
	positions := map[string]model.Position{resolved.Gateway.Admin.Address: resolved.Gateway.Admin.Position}
	for _, m := range resolved.Gateway.Listeners {
		positions[m.Address] = m.Position
	}
	found := map[string]model.Problem{}
	for address, position := range positions {
		for _, p := range resolved.Locate([]model.Problem{{Position: position}}) {
			if p.Position == position && p.Message == "" {
				found[address] = p
			}
		}
	}
	return found
}

// configKinds is the half of the kinds that decodes and validates.
func configKinds(kinds []pipeline.Kind) []config.Kind {
	half := make([]config.Kind, len(kinds))
	for i, kind := range kinds {
		half[i] = config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role, Warn: kind.Warn}
	}
	return half
}

// Schema is the JSON Schema of a configuration with these kinds of middleware.
func Schema(kinds []pipeline.Kind) []byte { return config.Schema(configKinds(kinds)) }

// Reference is the configuration reference, in Markdown.
func Reference(kinds []pipeline.Kind) []byte { return config.Reference(configKinds(kinds)) }

// inputs are what documents take in from outside, recorded as they ask for it.
type inputs map[string]string

// record returns an environment that notes what is taken from it.
func (in inputs) record(from config.Environment) config.Environment {
	from = from.WithDefaults()
	return config.Environment{
		LookupEnv: func(name string) (string, bool) {
			value, ok := from.LookupEnv(name)
			in["variable "+name] = fmt.Sprint(ok, " ", value)
			return value, ok
		},
		ReadFile: in.reading(from.ReadFile),
		ReadList: in.reading(from.ReadList),
		Stat:     from.Stat, // what it finds is either good, or a problem
		Inspect:  from.Inspect,
		Now:      from.Now,
	}
}

// reading returns a function that reads files by read, and notes what is in them.
func (in inputs) reading(read func(string) ([]byte, error)) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		content, err := read(path)
		in["file "+path] = string(content)
		return content, err
	}
}

// hash covers the documents as they stand and what they took in, so that a
// changed variable or file counts as a change, too.
func hash(documents []config.Document, in inputs) string {
	sum := sha256.New()
	put := func(name, content string) {
		_, _ = fmt.Fprintf(sum, "%d %s %d %s\n", len(name), name, len(content), content) // a hash takes all
	}
	for _, document := range documents {
		put(document.Name, string(document.Data))
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		put(name, in[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}
