package pipeline

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// LongestName is how many bytes the name of a consumer, a tier or a group has at most:
// they go into logs and fields.
const LongestName = 256

// ValidName tells whether a text, which may be empty, can be such a name: it is not too
// long, is UTF-8, and has nothing that would end a line.
func ValidName(text string) bool {
	return len(text) <= LongestName && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// Claim returns a claim by its name, or, where there is none, by a path of names with
// dots between them: realm_access.roles.
func (p *Principal) Claim(name string) (value any, there bool) {
	if p == nil {
		return nil, false
	}
	return claimOf(p.Claims, name)
}

// claimOf prefers the longest name, since names may have dots themselves.
func claimOf(claims map[string]any, path string) (value any, there bool) {
	if value, there = claims[path]; there {
		return value, true
	}
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		if inner, ok := claims[path[:end]].(map[string]any); ok {
			if value, there = claimOf(inner, path[end+1:]); there {
				return value, true
			}
		}
	}
	return nil, false
}

// ClaimText is a claim as text: of a list the members with commas between them, of an
// object its JSON, and nothing of null.
func ClaimText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case json.Number:
		return value.String()
	case []any:
		members := make([]string, len(value))
		for i := range value {
			members[i] = ClaimText(value[i])
		}
		return strings.Join(members, ",")
	case map[string]any:
		text, err := json.Marshal(value)
		if err != nil {
			panic("BUG: a claim has no JSON: " + err.Error())
		}
		return string(text)
	}
	return fmt.Sprint(value)
}

// claim is a claim of the principal as text, empty where there is none.
func (x *Exchange) claim(name string) string {
	value, _ := x.Principal.Claim(name)
	return ClaimText(value)
}
