package config

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// pair is one key of a mapping with its value.
type pair struct{ key, value *yaml.Node }

// deepestMerge bounds merges of merges; a mapping that merges itself has no end.
const deepestMerge = 16

// pairs returns the keys of a mapping in order, those that << merges into it
// last. Keys of the mapping itself win over merged ones, earlier merged ones
// over later ones.
func (d *decoder) pairs(n *yaml.Node) []pair {
	pairs := make([]pair, 0, len(n.Content)/2)
	var merges []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := d.follow(n.Content[i])
		switch {
		case !ok:
			return pairs
		case key.Kind != yaml.ScalarNode:
			d.problem(key, "a key must be text, not "+describe(key), "")
			continue
		case isMerge(key):
			merges = append(merges, pair{key, n.Content[i+1]})
			continue
		case isNullNode(key):
			d.problem(key, "a key is empty", "")
			continue
		case key.Style&yaml.TaggedStyle != 0 && key.Tag != "!!str":
			f := unknownTag(key.Tag)
			d.problem(key, f.message, f.hint)
		}
		pairs = append(pairs, pair{key, n.Content[i+1]})
	}
	if merges == nil {
		return pairs
	}
	seen := make(map[string]bool, len(pairs))
	for _, p := range pairs {
		seen[p.key.Value] = true
	}
	for i, m := range merges {
		if i > 0 {
			d.problem(m.key, "the key << is here twice", "merge several mappings as <<: [*a, *b]")
		}
		pairs = d.merge(m.value, pairs, seen, 0)
	}
	return pairs
}

func isMerge(key *yaml.Node) bool { return key.Value == "<<" && key.Tag == "!!merge" }

func (d *decoder) merge(n *yaml.Node, pairs []pair, seen map[string]bool, depth int) []pair {
	n, ok := d.follow(n)
	switch {
	case !ok:
		return pairs
	case depth > deepestMerge:
		d.problem(n, "merges (<<) are nested too deep", "")
		return pairs
	case n.Kind == yaml.SequenceNode && depth == 0:
		for _, item := range n.Content {
			pairs = d.merge(item, pairs, seen, depth+1)
		}
		return pairs
	case n.Kind != yaml.MappingNode:
		d.problem(n, "<< must merge a mapping or a list of mappings, not "+describe(n), "")
		return pairs
	}
	d.tagged(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := d.follow(n.Content[i])
		switch {
		case !ok:
			return pairs
		case key.Kind != yaml.ScalarNode || isMerge(key) || seen[key.Value]:
			continue
		}
		seen[key.Value] = true
		pairs = append(pairs, pair{key, n.Content[i+1]})
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, ok := d.follow(n.Content[i]); ok && key.Kind == yaml.ScalarNode && isMerge(key) {
			pairs = d.merge(n.Content[i+1], pairs, seen, depth+1)
		}
	}
	return pairs
}

// find returns the node that path names below n, as deny[0] or
// request.set.X-A, or the deepest one on the way there.
func find(n *yaml.Node, path string) *yaml.Node {
	for range 100 {
		for range deepestMerge {
			if n.Kind != yaml.AliasNode || n.Alias == nil {
				break
			}
			n = n.Alias
		}
		path = strings.TrimPrefix(path, ".")
		if path == "" {
			return n
		}
		next, rest := child(n, path, 0)
		if next == nil {
			return n
		}
		n, path = next, rest
	}
	return n
}

// child returns the value of the longest key, or the item, that path begins
// with, and what is left of path.
func child(n *yaml.Node, path string, depth int) (value *yaml.Node, rest string) {
	if n.Kind == yaml.SequenceNode {
		index, end := 0, 1
		for ; end < len(path) && '0' <= path[end] && path[end] <= '9' && end < 9; end++ {
			index = index*10 + int(path[end]-'0')
		}
		if path[0] != '[' || end == len(path) || path[end] != ']' || index >= len(n.Content) {
			return nil, ""
		}
		return n.Content[index], path[end+1:]
	}
	if n.Kind != yaml.MappingNode || depth > deepestMerge {
		return nil, ""
	}
	best := -1
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if after, ok := strings.CutPrefix(path, key); ok && key != "" && len(key) > best && (after == "" || after[0] == '.' || after[0] == '[') {
			best, value, rest = len(key), n.Content[i+1], after
		}
	}
	if value != nil {
		return value, rest
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			if value, rest = mergedChild(n.Content[i+1], path, depth); value != nil {
				return value, rest
			}
		}
	}
	return nil, ""
}

func mergedChild(n *yaml.Node, path string, depth int) (value *yaml.Node, rest string) {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		return child(n, path, depth+1)
	}
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode && item.Alias != nil {
			item = item.Alias
		}
		if value, rest = child(item, path, depth+1); value != nil {
			return value, rest
		}
	}
	return nil, ""
}

// below is the place that a path names below a place.
func (p place) below(path string) place {
	if p.node == nil {
		return p
	}
	return place{p.src, find(p.node, path)}
}
