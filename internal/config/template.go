package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// Template is a text with placeholders. Whether its path parameters exist is
// checked for every route that uses it.
type Template struct{ model.Template }

// templateNames are path parameters that templates of a middleware name.
type templateNames []parameterUse

type parameterUse struct {
	place
	name string
}

func (t *Template) decode(d *decoder, n *yaml.Node) {
	d.scalar(n, "text", func(s scalar) *fault {
		if !s.loose && s.nature() != isText {
			return unwanted(fmt.Sprintf("put it into quotes: %q", s.s))
		}
		parsed, f := parseTemplate(s.text)
		if f != nil {
			return f
		}
		t.Template = parsed
		for _, part := range parsed.Parts {
			if part.Source == model.FromParam {
				d.names = append(d.names, parameterUse{s.where, part.Name})
			}
		}
		return nil
	})
}

// longestTemplate is the length of a text with placeholders that is too long.
const longestTemplate = 1 << 20

// parseTemplate reads placeholders; {{ and }} are braces. Faults follow the
// name of the value.
func parseTemplate(t text) (model.Template, *fault) {
	if !strings.ContainsAny(t.s, "{}") {
		return model.Literal(t.s), nil
	}
	if len(t.s) > longestTemplate {
		return model.Template{}, faulty(fmt.Sprintf("is longer than %d bytes", longestTemplate), "")
	}
	var template model.Template
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			template.Parts = append(template.Parts, model.TemplatePart{Literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(t.s); {
		c := t.s[i]
		switch {
		case c != '{' && c != '}' || !t.structural(i):
			literal.WriteByte(c)
			i++
		case i+1 < len(t.s) && t.s[i+1] == c && t.structural(i+1):
			literal.WriteByte(c)
			i += 2
		case c == '}':
			return template, faulty("has a } without a {", "write }} for a brace")
		default:
			end := i + 1
			for end < len(t.s) && !(t.s[end] == '}' && t.structural(end)) {
				end++
			}
			if end == len(t.s) {
				return template, faulty("has a { that is not closed", "write {{ for a brace")
			}
			part, f := placeholder(t.s[i+1 : end])
			if f != nil {
				return template, f
			}
			flush()
			template.Parts = append(template.Parts, part)
			i = end + 1
		}
	}
	flush()
	return template, nil
}

// placeholder reads what stands between { and }.
func placeholder(name string) (model.TemplatePart, *fault) {
	for _, builtin := range model.Builtins {
		if name == string(builtin) {
			return model.TemplatePart{Source: builtin}, nil
		}
	}
	if source, rest, ok := strings.Cut(name, "."); ok {
		if slices.Contains(model.Lookups[:], model.Placeholder(source)) {
			if rest == "" || source != string(model.FromClaim) && !isToken(rest) {
				return model.TemplatePart{}, faulty(fmt.Sprintf("has the placeholder {%s}, in which %s is no name of a %s", name, short(rest), source), "")
			}
			return model.TemplatePart{Source: model.Placeholder(source), Name: rest}, nil
		}
		if base, _, ok := strings.Cut(name, "..."); ok && isParameterName(base) {
			return model.TemplatePart{}, faulty(fmt.Sprintf("has an unknown placeholder {%s}", name), "write {"+base+"}, without dots")
		}
	}
	if !isParameterName(name) {
		return model.TemplatePart{}, faulty(fmt.Sprintf("has an unknown placeholder {%s}", name), "write {{ and }} for braces; placeholders are "+placeholderList())
	}
	return model.TemplatePart{Source: model.FromParam, Name: name}, nil
}

func placeholderList() string {
	var list []string
	for _, builtin := range model.Builtins {
		list = append(list, "{"+string(builtin)+"}")
	}
	for _, lookup := range model.Lookups {
		list = append(list, "{"+string(lookup)+".NAME}")
	}
	return strings.Join(list, ", ") + " and the parameters of the path"
}

// placeholderNames are the names that a misspelled placeholder may mean.
func placeholderNames(parameters []string) []string {
	names := slices.Clone(parameters)
	for _, builtin := range model.Builtins {
		names = append(names, string(builtin))
	}
	return names
}

func isParameterName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && ('0' <= c && c <= '9' || c == '-')) {
			return false
		}
	}
	return name != ""
}

// isToken tells whether s is a token (RFC 9110 5.6.2): a method, a field name.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// hasControl tells whether a field value must not have s in it (RFC 9110 5.5).
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// literals yields the literal parts of a template.
func literals(t model.Template) string {
	var out strings.Builder
	for _, part := range t.Parts {
		out.WriteString(part.Literal)
	}
	return out.String()
}
