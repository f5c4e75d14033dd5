package router_test

import (
	"regexp"
	"strings"

	"sluice/internal/model"
)

func exact(text string) model.Path  { return model.Path{Kind: model.ExactPath, Text: text} }
func prefix(text string) model.Path { return model.Path{Kind: model.PrefixPath, Text: text} }
func regex(text string) model.Path {
	return model.Path{Kind: model.RegexPath, Text: text, Regex: regexp.MustCompile(text)}
}

// pattern reads a pattern as documents have it, in its one spelling.
func pattern(text string) model.Path {
	path := model.Path{Kind: model.PatternPath, Text: text}
	for part := range strings.SplitSeq(text[1:], "/") {
		segment := model.Segment{Literal: part}
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name, segment.Rest = strings.CutSuffix(strings.TrimSuffix(name, "}"), "...")
			segment.Literal, segment.Param = "", name
		}
		path.Segments = append(path.Segments, segment)
	}
	return path
}

func equal(name, value string) model.Condition { return model.Condition{Name: name, Value: &value} }
func matches(name, text string) model.Condition {
	return model.Condition{Name: name, Regex: regexp.MustCompile(text)}
}
func present(name string, there bool) model.Condition {
	return model.Condition{Name: name, Present: &there}
}
