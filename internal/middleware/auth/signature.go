package auth

import (
	"strconv"
	"strings"

	"sluice/internal/message"
)

// signature is one of a request (RFC 9421 4), with what it says of itself.
type signature struct {
	mac        []byte // nil: there is none under its label
	components []string
	params     string // the value of @signature-params
	created    int64  // Unix seconds
	expires    int64
	hasCreated bool
	hasExpires bool
	algorithm  string // empty: not said
	key        string // keyid
	nonce      string
	// foreign says that it has what is not known here, so that it cannot be verified: it
	// may be for somebody else, and is no fault of others beside it.
	foreign bool
}

// longestInput is how many bytes Signature-Input has at most, and Signature: what is read of
// them is read for everybody.
const longestInput = 8 << 10

// signaturesOf reads the signatures of a request by their labels. Where the fields are
// not there, or are malformed, it returns none.
func signaturesOf(fields message.Fields) map[string]*signature {
	inputs, ok := joined(fields, "signature-input")
	macs, also := joined(fields, "signature")
	if !ok || !also || len(inputs) > longestInput || len(macs) > longestInput {
		return nil
	}
	found := map[string]*signature{}
	s := scanner{rest: inputs}
	if !s.dictionary(func(label string) { found[label] = s.input() }) {
		return nil
	}
	s = scanner{rest: macs}
	if !s.dictionary(func(label string) {
		mac, more := s.bytes(), s.parameters()
		if sig := found[label]; sig != nil {
			sig.mac, sig.foreign = mac, sig.foreign || more
		}
	}) {
		return nil
	}
	return found
}

// joined is the value of a field, of all its lines (RFC 9421 2.1).
func joined(fields message.Fields, name string) (value string, there bool) {
	return fields.Joined(", ", func(other string) bool { return message.SameName(other, name) })
}

// input reads a member of Signature-Input: an inner list of names, and parameters. It
// notes them as they have to be signed (RFC 9421 2.3).
func (s *scanner) input() *signature {
	sig := &signature{}
	var params strings.Builder
	params.WriteByte('(')
	s.take("(")
	for s.rest = strings.TrimLeft(s.rest, " "); !s.bad && !s.next(')'); {
		component := s.text()
		switch parts := s.parameters(); { // of a part of a field or of the target
		case len(sig.components) >= mostMembers, !parts && sig.has(component): // 2.5: no name stands twice
			s.bad = true
		case parts:
			sig.foreign = true
		}
		if len(sig.components) > 0 {
			params.WriteByte(' ')
		}
		params.WriteString(quoted(component))
		sig.components = append(sig.components, component)
		if !strings.HasPrefix(s.rest, ")") {
			s.take(" ")
			s.rest = strings.TrimLeft(s.rest, " ")
		}
	}
	params.WriteByte(')')
	sig.describe(s, &params)
	sig.params = params.String()
	return sig
}

func (sig *signature) has(component string) bool {
	for _, one := range sig.components {
		if one == component {
			return true
		}
	}
	return false
}

// describe reads the parameters of a signature: texts and integers.
func (sig *signature) describe(s *scanner, out *strings.Builder) {
	seen := map[string]bool{}
	for s.next(';') {
		s.rest = strings.TrimLeft(s.rest, " ")
		name := s.key()
		if s.bad || seen[name] || len(seen) >= mostMembers {
			s.bad = true
			return
		}
		seen[name] = true
		value := s.next('=')
		out.WriteString(";" + name + "=")
		switch {
		case value && name == "created":
			sig.created, sig.hasCreated = s.integer(), true
			out.WriteString(strconv.FormatInt(sig.created, 10))
		case value && name == "expires":
			sig.expires, sig.hasExpires = s.integer(), true
			out.WriteString(strconv.FormatInt(sig.expires, 10))
		case value && strings.HasPrefix(s.rest, `"`):
			text := s.text()
			out.WriteString(quoted(text))
			sig.say(name, text)
		default:
			sig.foreign = true
			if value {
				s.item()
			}
		}
	}
}

// say notes a parameter that is a text.
func (sig *signature) say(name, text string) {
	switch name {
	case "alg":
		sig.algorithm = text
	case "keyid":
		sig.key = text
	case "nonce":
		sig.nonce = text
	}
}

// base is what has to be signed (RFC 9421 2.5), with a path of the request: as it came,
// or canonical. It fails where something is covered that the request does not have, or
// that cannot be told.
func (sig *signature) base(r *message.Request, path string) (base string, ok bool) {
	if sig.foreign {
		return "", false
	}
	var out strings.Builder
	for _, component := range sig.components {
		value, ok := componentOf(r, component, path)
		if !ok || strings.ContainsAny(value, "\r\n") {
			return "", false
		}
		out.WriteString(quoted(component) + ": " + value + "\n")
	}
	out.WriteString(`"@signature-params": ` + sig.params)
	return out.String(), true
}

// dropAlike drops the fields that are not covered, and that some endpoints take for one
// that is (message.Alike): what the signature says of that one is the last word.
func (sig *signature) dropAlike(r *message.Request) {
	r.Fields.DeleteFunc(func(field message.Field) (drop bool) {
		for _, component := range sig.components {
			if message.SameName(field.Name, component) {
				return false
			}
			drop = drop || message.Alike(field.Name, component)
		}
		return drop
	})
}

// componentOf is the value of a component (RFC 9421 2.1 and 2.2).
func componentOf(r *message.Request, component, path string) (value string, ok bool) {
	query := r.Query
	if query == "?" {
		query = ""
	}
	switch component {
	case "@method":
		return r.Method, true
	case "@scheme":
		return strings.ToLower(r.Scheme), true
	case "@authority":
		return authorityOf(r), true
	case "host":
		return r.Host, true
	case "content-length": // which is no field any more
		return strconv.FormatInt(r.Length, 10), r.Length >= 0
	case "@path":
		return path, true
	case "@query":
		return "?" + strings.TrimPrefix(query, "?"), true
	case "@request-target":
		return path + r.Query, true
	case "@target-uri":
		return strings.ToLower(r.Scheme) + "://" + authorityOf(r) + path + r.Query, true
	}
	if strings.HasPrefix(component, "@") || component != strings.ToLower(component) {
		return "", false
	}
	return joined(r.Fields, component)
}

// authorityOf is the host in lower case, with its port unless that is the usual one.
func authorityOf(r *message.Request) string {
	authority, port := strings.ToLower(r.Host), ":80"
	if strings.EqualFold(r.Scheme, "https") {
		port = ":443"
	}
	return strings.TrimSuffix(authority, port)
}

// pathsOf are the paths that may have been signed: as it came, and in its canonical form,
// by which the request is routed. They lead to the same place.
func pathsOf(r *message.Request) []string {
	path, _, _ := strings.Cut(r.Target, "?")
	if _, rest, ok := strings.Cut(path, "://"); ok { // absolute form (RFC 9112 3.2.2)
		path = "/"
		if at := strings.IndexByte(rest, '/'); at >= 0 {
			path = rest[at:]
		}
	}
	if path == r.Path || !strings.HasPrefix(path, "/") {
		return []string{r.Path}
	}
	return []string{path, r.Path}
}
