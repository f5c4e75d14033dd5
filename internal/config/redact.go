package config

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// secrets are the paths of the values that nobody is to read in a document.
// What they take from a variable or a file is not in it anyway.
var secrets = [][]string{{"admin", "token"}}

const redacted = "REDACTED"

// Redact returns a document's text with its secrets struck out. A document
// whose secrets cannot be told from the rest is struck out whole.
func Redact(d Document) []byte {
	src, ok := parse(d, 0, newCollector())
	if !ok {
		return []byte(redacted + "\n")
	}
	for _, path := range secrets {
		secret := secretAt(src.root, path)
		if secret == nil || secret.Value == "" || isReference(secret.Value) {
			continue
		}
		d.Data = bytes.ReplaceAll(d.Data, []byte(secret.Value), []byte(redacted))
		if left := reread(d, path); left != redacted {
			return []byte(redacted + "\n")
		}
	}
	return d.Data
}

func reread(d Document, path []string) string {
	src, ok := parse(d, 0, newCollector())
	if !ok {
		return ""
	}
	if secret := secretAt(src.root, path); secret != nil {
		return secret.Value
	}
	return ""
}

// isReference tells whether a value is nothing but one ${…} without a default.
func isReference(value string) bool {
	return strings.HasPrefix(value, "${") && strings.IndexByte(value, '}') == len(value)-1 && (strings.HasPrefix(value, "${file:") || !strings.Contains(value, ":-") || strings.HasSuffix(value, ":-}"))
}

// secretAt returns the scalar at a path of keys, through aliases and merge keys.
func secretAt(n *yaml.Node, path []string) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n == nil:
		return nil
	case len(path) == 0:
		if n.Kind == yaml.ScalarNode {
			return n
		}
		return nil
	case n.Kind == yaml.SequenceNode: // of a merge key
		for _, item := range n.Content {
			if found := secretAt(item, path); found != nil {
				return found
			}
		}
		return nil
	case n.Kind != yaml.MappingNode:
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == path[0] {
			return secretAt(n.Content[i+1], path[1:])
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" {
			if found := secretAt(n.Content[i+1], path); found != nil {
				return found
			}
		}
	}
	return nil
}
