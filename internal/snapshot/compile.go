// Package snapshot turns documents into the immutable form that serves
// requests, and keeps the one pointer to it. Compile is the part that needs
// nothing but text, for a validation; a Builder adds what lives on between
// snapshots. It reads no files and decides nothing about when to reload.
package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	Files     []string // that the documents took in by ${file:}
	SHA256    string   // of the documents and of what they took in
}

// Compile resolves documents, compiles their routes, and starts nothing. The
// problems are sorted by position; with one that is more than a warning among
// them the result is nil.
func Compile(documents []config.Document, kinds []pipeline.Kind, environment config.Environment) (*Compiled, []model.Problem) {
	resolved := config.Resolve(documents, configKinds(kinds), environment)
	problems := resolved.Problems
	if resolved.Gateway == nil {
		return nil, problems
	}
	table, found := router.Compile(resolved.Gateway.Routes)
	problems = config.Locate(documents, append(problems, found...))
	if model.Refused(problems) {
		return nil, problems
	}
	return &Compiled{documents, resolved.Gateway, table, resolved.Files, hash(documents, resolved.Gateway)}, problems
}

// configKinds is the half of the kinds that decodes and validates.
func configKinds(kinds []pipeline.Kind) []config.Kind {
	half := make([]config.Kind, len(kinds))
	for i, kind := range kinds {
		half[i] = config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}
	}
	return half
}

// Schema is the JSON Schema of a configuration with these kinds of middleware.
func Schema(kinds []pipeline.Kind) []byte { return config.Schema(configKinds(kinds)) }

// Reference is the configuration reference, in Markdown.
func Reference(kinds []pipeline.Kind) []byte { return config.Reference(configKinds(kinds)) }

// hash covers the documents as they stand and what they mean, so that a changed
// variable or file counts as a change, too.
func hash(documents []config.Document, gateway *model.Gateway) string {
	sum := sha256.New()
	for _, document := range slices.SortedFunc(slices.Values(documents), func(a, b config.Document) int { return cmp.Compare(a.Name, b.Name) }) {
		fmt.Fprintf(sum, "%d %s %d\n%s\n", len(document.Name), document.Name, len(document.Data), document.Data)
	}
	fmt.Fprint(sum, model.Text(gateway))
	return hex.EncodeToString(sum.Sum(nil))
}
