package config

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/model"
)

// parsePath reads a path condition: literal, or a pattern with parameters.
func parsePath(t text) (model.Path, *fault) {
	segments, f := parseSegments(t)
	if f != nil {
		return model.Path{}, f
	}
	canonicalText, f := canonicalPath(segments)
	if f != nil {
		return model.Path{}, f
	}
	if !slices.ContainsFunc(segments, func(s model.Segment) bool { return s.Param != "" }) {
		return model.Path{Kind: model.ExactPath, Text: canonicalText}, nil
	}
	parts := strings.Split(canonicalText[1:], "/")
	if len(parts) != len(segments) {
		return model.Path{}, faulty(fmt.Sprintf("has dot segments or repeated slashes beside parameters: %s", short(t.shown())), "write it without them")
	}
	var out strings.Builder
	for i := range segments {
		if segments[i].Param == "" {
			segments[i].Literal = parts[i]
		}
		out.WriteString("/" + segmentText(segments[i]))
	}
	return model.Path{Kind: model.PatternPath, Text: out.String(), Segments: segments}, nil
}

// parsePrefix reads a path prefix: literal, whole segments.
func parsePrefix(t text) (model.Path, *fault) {
	segments, f := parseSegments(t)
	if f != nil {
		return model.Path{}, f
	}
	for _, segment := range segments {
		if segment.Param != "" {
			return model.Path{}, faulty("takes no parameters", "use path, with {rest...} at its end")
		}
	}
	path, f := canonicalPath(segments)
	if f != nil {
		return model.Path{}, f
	}
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		path = trimmed
	} else {
		path = "/"
	}
	return model.Path{Kind: model.PrefixPath, Text: path}, nil
}

func segmentText(s model.Segment) string {
	switch {
	case s.Param == "*":
		return "*"
	case s.Rest:
		return "{" + s.Param + "...}"
	case s.Param != "":
		return "{" + s.Param + "}"
	}
	if strings.ContainsAny(s.Literal, "{}") {
		return strings.NewReplacer("{", "{{", "}", "}}").Replace(s.Literal)
	}
	return s.Literal
}

// canonicalPath is the one form of a literal path. A parameter counts as a
// plain segment.
func canonicalPath(segments []model.Segment) (string, *fault) {
	var out strings.Builder
	for _, segment := range segments {
		out.WriteByte('/')
		if segment.Param != "" {
			out.WriteByte('x')
		} else {
			out.WriteString(segment.Literal)
		}
	}
	path, err := canonical.Path(out.String(), canonical.Options{EncodedSlash: canonical.Keep})
	if err != nil {
		return "", faulty("cannot be matched: "+err.Error(), "")
	}
	return path, nil
}

// escapeUnsafe escapes what no client sends as it is: white space and what is
// not ASCII.
func escapeUnsafe(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == ' ' || r >= 0x80 }) {
		return s
	}
	var out strings.Builder
	for i := range len(s) {
		if s[i] == ' ' || s[i] >= 0x80 {
			fmt.Fprintf(&out, "%%%02X", s[i])
		} else {
			out.WriteByte(s[i])
		}
	}
	return out.String()
}

// longestPath is the length of a path beyond which no request is taken.
const longestPath = 16 << 10

// parseSegments splits a path and reads its parameters.
func parseSegments(t text) ([]model.Segment, *fault) {
	switch {
	case !strings.HasPrefix(t.s, "/"):
		hint := "write /" + t.written
		if strings.Contains(t.s, "://") {
			hint = "hosts stand under hosts"
		}
		return nil, faulty(fmt.Sprintf("must begin with a slash: %s", short(t.shown())), hint)
	case len(t.s) > longestPath:
		return nil, faulty(fmt.Sprintf("is longer than %d bytes", longestPath), "")
	case strings.ContainsAny(t.s, "?#"):
		return nil, faulty(fmt.Sprintf("must be a path alone, without ? and #: %s", short(t.shown())), "conditions on the query stand under query")
	}
	var segments []model.Segment
	for start := 1; start <= len(t.s); {
		end := start + max(0, strings.IndexByte(t.s[start:], '/'))
		if strings.IndexByte(t.s[start:], '/') < 0 {
			end = len(t.s)
		}
		segment, f := parseSegment(t.slice(start, end))
		if f == nil && segment.Rest && end < len(t.s) {
			f = faulty(fmt.Sprintf("has %s before its end", segmentText(segment)), "what takes the rest of a path stands last")
		}
		if f == nil && segment.Param != "" {
			f = checkName(segment.Param, segments)
		}
		if f != nil {
			return nil, f
		}
		segments = append(segments, segment)
		start = end + 1
	}
	return segments, nil
}

func checkName(name string, before []model.Segment) *fault {
	for _, builtin := range model.Builtins {
		if name == string(builtin) {
			return faulty(fmt.Sprintf("has a parameter {%s}, which is the name of a placeholder of its own", name), "rename it")
		}
	}
	for _, segment := range before {
		if segment.Param == name {
			return faulty(fmt.Sprintf("has the parameter {%s} twice", name), "rename one of them")
		}
	}
	return nil
}

// parseSegment reads one segment of a path.
func parseSegment(t text) (model.Segment, *fault) {
	s := t.s
	switch {
	case s == "*" && t.structural(0):
		return model.Segment{Param: "*", Rest: true}, nil
	case strings.HasPrefix(s, ":") && t.structural(0):
		if !isParameterName(s[1:]) {
			return model.Segment{}, faulty(fmt.Sprintf("has %s, which is no name of a parameter", short(t.shown())), "a name has letters, digits, _ and -, and begins with a letter")
		}
		return model.Segment{Param: s[1:]}, nil
	case len(s) > 2 && s[0] == '{' && t.structural(0) && s[1] != '{' && s[len(s)-1] == '}' && t.structural(len(s)-1) && !strings.ContainsAny(s[1:len(s)-1], "{}"):
		name, isRest := strings.CutSuffix(s[1:len(s)-1], "...")
		if !isParameterName(name) {
			return model.Segment{}, faulty(fmt.Sprintf("has %s, which is no name of a parameter", short(t.shown())), "a name has letters, digits, _ and -, and begins with a letter; write {{ and }} for braces")
		}
		return model.Segment{Param: name, Rest: isRest}, nil
	}
	var literal strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case !t.structural(i) || c != '{' && c != '}' && c != '*':
			literal.WriteByte(c)
		case c == '*':
			return model.Segment{}, faulty(fmt.Sprintf("has a * within the segment %s", short(t.shown())), "a * stands alone and last; use path_regex for more")
		case i+1 < len(s) && s[i+1] == c && t.structural(i+1):
			literal.WriteByte(c)
			i++
		default:
			return model.Segment{}, faulty(fmt.Sprintf("has a parameter within the segment %s", short(t.shown())), "a parameter is a whole segment; write {{ and }} for braces, or use path_regex")
		}
	}
	return model.Segment{Literal: literal.String()}, nil
}
