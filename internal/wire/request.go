package wire

import (
	"bytes"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// RequestHead reads the head of a request (RFC 9112 3) at the front of data.
//
// n is how many bytes it took; 0 without an error means that more must come.
// Then the next call gets the same data with more behind it, and the same scan.
//
// It sets Protocol, Method, Target, Host, Path, Query and Length of r and
// appends to r.Fields, all but Host, Content-Length and Transfer-Encoding.
// Host is the authority of an absolute-form target where there is one (RFC 9112
// 3.2.2), Path is as it came: "*" for the server as a whole, the authority for
// CONNECT. All strings are parts of one that is allocated for the head; nothing
// else is allocated where r.Fields has room and the target is in origin-form.
// Scheme, Body and Trailer are the
// caller's.
//
// One empty line before the head is skipped (RFC 9112 2.2). An error is an
// *Error, and the connection cannot go on. Where the start line was sound r then
// tells of it, for the log; the fields are what they were.
func RequestHead(r *message.Request, data []byte, scan *Scan, limits Limits) (n int, f Framing, err error) {
	start, err := skipEmptyLine(data)
	if err != nil || start == len(data) {
		return 0, f, err
	}
	seen := window(data, start, limits)
	line, first := scan.startLine(seen, start)
	if line == 0 {
		if err := scan.beginning(seen, start, limits); err != nil {
			return 0, f, err
		}
		scan.seen = len(data)
		return 0, f, incomplete(data, seen)
	}
	end, lines, fault := scan.ends(seen)
	scan.seen = len(data)
	if end == 0 && fault == nil {
		fault = incomplete(data, seen)
		if fault == nil && !first {
			return 0, f, nil
		}
	}
	parts, err := requestLine(seen[:line], start, limits)
	switch {
	case err != nil:
		return 0, f, err
	case end > 0:
	case fault == nil:
		return 0, f, nil
	default:
		parts.set(r, string(data[start:line]), start)
		return 0, f, fault
	}
	head := string(data[start:end])
	parts.set(r, head, start)
	s := section{fields: room(r.Fields, lines, limits.Headers), place: inRequest}
	if err := s.parse(data, head, start, line, end-len("\r\n"), limits.Headers); err != nil {
		return 0, f, err
	}
	if r.Host == "" {
		r.Host = s.host
	}
	if s.hosts == 0 && r.Protocol != message.HTTP10 {
		return 0, f, ErrNoHost
	}
	if f, err = s.framing(r.Protocol); err != nil {
		return 0, f, err
	}
	r.Fields = s.fields
	f.Expect = s.expects && f.Body != NoBody && r.Protocol == message.HTTP11
	r.Length = f.Length
	*scan = Scan{}
	return end, f, nil
}

// skipEmptyLine returns where the request begins. One empty line is skipped,
// which some clients send after a body; with more, it is the request line that
// is empty.
func skipEmptyLine(data []byte) (start int, err error) {
	switch {
	case len(data) == 0 || data[0] != '\r':
		return 0, nil
	case len(data) == 1:
		return 1, nil // more must come
	case data[1] != '\n':
		return 0, ErrBareCR
	}
	return len("\r\n"), nil
}

// beginning looks at a request line whose end has not come, and that begins at
// start.
func (s *Scan) beginning(data []byte, start int, limits Limits) error {
	if data[len(data)-1] == '\r' { // it may be of the line's end
		data = data[:len(data)-1]
	}
	from := min(max(s.seen-1, start), len(data)) // the last byte may have been left out as well
	if s.target == 0 {
		space := bytes.IndexByte(data[from:], ' ')
		if space < 0 {
			return checkMethod(data[from:])
		}
		s.target = from + space + 1
		if err := checkMethod(data[from : s.target-1]); err != nil {
			return err
		}
	}
	if from = max(from, s.target); s.end == 0 {
		if space := bytes.IndexByte(data[from:], ' '); space >= 0 {
			s.end = from + space
		}
	}
	end := s.end
	if end == 0 {
		end = len(data)
	}
	if limits.URIBytes > 0 && end-s.target > limits.URIBytes {
		return ErrURITooLong
	}
	return nil
}

func checkMethod(method []byte) error {
	for _, c := range method {
		if !token[c] {
			return ErrMethod
		}
	}
	return nil
}

// requestParts are the ends of the method and of the target in the data, each
// before a space, and the version.
type requestParts struct {
	method, target int
	protocol       message.Protocol
}

// set makes them parts of text, which begins at start.
func (p *requestParts) set(r *message.Request, text string, start int) {
	r.Protocol = p.protocol
	r.Method = text[:p.method-start]
	r.Target = text[p.method+1-start : p.target-start]
	splitTarget(r)
}

// requestLine checks the request line that data ends with and that begins at
// start.
func requestLine(data []byte, start int, limits Limits) (p requestParts, err error) {
	end := len(data) - 1
	broken := end == start || data[end-1] != '\r'
	if !broken {
		end--
	}
	p.method = start
	for p.method < end && token[data[p.method]] {
		p.method++
	}
	if p.method < end && data[p.method] != ' ' {
		return p, ErrMethod
	}
	from := min(p.method+1, end)
	p.target = bytes.IndexByte(data[from:end], ' ')
	noVersion := p.target < 0
	if noVersion {
		p.target = end - from
	}
	p.target += from
	switch {
	case limits.URIBytes > 0 && p.target-from > limits.URIBytes:
		return p, ErrURITooLong
	case broken:
		return p, ErrBareLF
	case p.method == start, p.method == end, p.target == from:
		return p, ErrRequestLine
	case noVersion:
		return p, ErrNoVersion
	case bytes.IndexByte(data[p.target+1:end], ' ') >= 0:
		return p, ErrRequestLine
	}
	if p.protocol, err = version(data[p.target+1 : end]); err != nil {
		return p, err
	}
	return p, checkTarget(data[start:p.method], data[from:p.target])
}

// version reads the version of a start line, which is case-sensitive (RFC 9112
// 2.3).
func version(text []byte) (message.Protocol, error) {
	switch {
	case string(text) == string(message.HTTP11):
		return message.HTTP11, nil
	case string(text) == string(message.HTTP10):
		return message.HTTP10, nil
	case len(text) == len("HTTP/1.1") && string(text[:5]) == "HTTP/" && text[5]-'0' <= 9 && text[6] == '.' && text[7]-'0' <= 9:
		return "", ErrUnsupportedVersion
	}
	return "", ErrVersion
}

// checkTarget checks a request target for its method (RFC 9112 3.2). Whether
// its escapes are right shows when the path gets its canonical form.
func checkTarget(method, text []byte) error {
	for _, c := range text {
		if !target[c] {
			return ErrTarget
		}
	}
	switch {
	case string(method) == "CONNECT": // authority-form
		if !validAuthority(string(text)) {
			return ErrTargetForm
		}
		return nil
	case text[0] == '/':
		return nil
	case text[0] == '*':
		if len(text) > 1 || string(method) != "OPTIONS" {
			return ErrTargetForm
		}
		return nil
	}
	authority := schemeEnd(text)
	if authority == 0 {
		return ErrTargetForm
	}
	text = text[authority:]
	if !validAuthority(string(text[:authorityEnd(text)])) {
		return ErrAuthority
	}
	return nil
}

// validAuthority is stricter than Host may be: http has no host that needs an
// escape, and net/http knows none either.
func validAuthority(text string) bool {
	return canonical.ValidAuthority(text) && strings.IndexByte(text, '%') < 0
}

// schemeEnd returns where the authority of an absolute-form target begins, or 0.
func schemeEnd[T string | []byte](text T) int {
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(text) >= len(scheme) && fold(string(text[:len(scheme)]), scheme) {
			return len(scheme)
		}
	}
	return 0
}

func authorityEnd[T string | []byte](text T) int {
	for i := range len(text) {
		if text[i] == '/' || text[i] == '?' {
			return i
		}
	}
	return len(text)
}

// splitTarget sets Path and Query from a target that was checked, and Host from
// its authority, or empty.
func splitTarget(r *message.Request) {
	rest := r.Target
	r.Host = ""
	switch {
	case r.Method == "CONNECT":
		r.Host, r.Path, r.Query = rest, rest, ""
		return
	case rest[0] != '/' && rest[0] != '*':
		rest = rest[schemeEnd(rest):]
		end := authorityEnd(rest)
		r.Host, rest = rest[:end], rest[end:]
		switch {
		case rest == "" && r.Method == "OPTIONS": // RFC 9112 3.2.4
			rest = "*"
		case rest == "" || rest[0] == '?':
			r.Path, r.Query = "/", rest
			return
		}
	}
	if mark := strings.IndexByte(rest, '?'); mark >= 0 {
		r.Path, r.Query = rest[:mark], rest[mark:]
		return
	}
	r.Path, r.Query = rest, ""
}
