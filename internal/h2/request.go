package h2

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"
)

// draft gives a stream a request with the first line that the block has, as far
// as that is valid, and returns that line and the fields after it.
func (c *Conn) draft(s *stream) (line pseudo, fields []hpack.HeaderField, err error) {
	fields = c.block.fields
	for len(fields) > 0 && fields[0].IsPseudo() && err == nil {
		if !validValue(fields[0].Value) {
			err = ErrFieldValue
			break
		}
		err = line.take(&fields[0])
		fields = fields[1:]
	}
	ctx, cancel := context.WithCancelCause(c.values)
	r := new(http.Request).WithContext(ctx) // that is no copy of one with content
	s.cancel, s.request = cancel, r
	r.Method, r.Host, r.RequestURI, r.RemoteAddr = line.method, line.authority, line.path, c.remote
	r.Proto, r.ProtoMajor, r.TLS, r.ContentLength = "HTTP/2.0", 2, c.options.TLS, -1
	return line, fields, err
}

// request makes the request of a stream from the header block, or says which rule
// that breaks. It runs without mu: nobody else knows the stream.
func (c *Conn) request(s *stream, crowded bool) error {
	b := &c.block
	s.ended = b.endStream
	line, fields, err := c.draft(s)
	r := s.request
	switch refusal := b.refusal(crowded); {
	case refusal != nil:
		return refusal
	case err != nil:
		return err
	}
	if b.tooLong || len(fields) > b.lines {
		s.handler, r.Header = c.options.Oversized, http.Header{}
	} else {
		if err := line.check(); err != nil {
			return err
		}
		header := header{conn: c, stream: s, request: r, values: make([]string, 0, len(fields)+1)}
		if err := header.fill(fields); err != nil {
			return err
		}
		if err := header.host(&line); err != nil {
			return err
		}
	}
	if s.length >= 0 {
		r.ContentLength = s.length
	}
	r.Body = &s.body
	if s.ended {
		if s.length > 0 {
			return ErrLength
		}
		r.Body, r.ContentLength = http.NoBody, 0
	}
	if line.protocol != "" {
		r.Header[":protocol"] = []string{line.protocol}
	} else if line.method == http.MethodConnect {
		r.RequestURI = line.authority
	}
	s.locate(r)
	return nil
}

// locate sets the URL, as net/http's server does. A path that is none is left to
// the handler, which can say so to the client.
func (s *stream) locate(r *http.Request) {
	r.URL = &s.target
	switch {
	case r.Method == http.MethodConnect && !strings.HasPrefix(r.RequestURI, "/"):
		s.target.Host = r.RequestURI
	case strings.ContainsAny(r.RequestURI, "%#[]"), r.RequestURI == "*":
		if parsed, err := url.ParseRequestURI(r.RequestURI); err == nil {
			s.target = *parsed
			return
		}
		fallthrough
	default:
		path, query, marked := strings.Cut(r.RequestURI, "?")
		s.target.Path, s.target.RawQuery, s.target.ForceQuery = path, query, marked && query == ""
	}
}

// header makes a request's header of fields.
type header struct {
	conn    *Conn
	stream  *stream
	request *http.Request
	values  []string // one piece of memory for the lists of values
	host1   string   // of Host
	hosts   int
	cookies int
}

func (h *header) fill(fields []hpack.HeaderField) error {
	into := make(http.Header, len(fields))
	h.request.Header = into
	for i := range fields {
		field := &fields[i]
		if err := checkField(field); err != nil {
			return err
		}
		switch field.Name {
		case "host":
			h.host1 = field.Value
			h.hosts++
			continue
		case "cookie":
			h.cookies++
			if h.cookies > 1 {
				continue
			}
		case "content-length":
			if err := h.length(field.Value); err != nil {
				return err
			}
			if into["Content-Length"] != nil {
				continue // the same
			}
		}
		name := h.conn.canonical(field.Name)
		if lines := into[name]; lines != nil {
			into[name] = append(lines, field.Value)
			continue
		}
		h.values = append(h.values, field.Value)
		at := len(h.values) - 1
		into[name] = h.values[at : at+1 : at+1]
	}
	if h.cookies > 1 {
		into["Cookie"] = []string{crumbs(fields, h.cookies)}
	}
	h.expect()
	h.announced()
	return nil
}

// crumbs joins the lines of Cookie (RFC 9113 8.2.3).
func crumbs(fields []hpack.HeaderField, n int) string {
	lines := make([]string, 0, n)
	for i := range fields {
		if fields[i].Name == "cookie" {
			lines = append(lines, fields[i].Value)
		}
	}
	return strings.Join(lines, "; ")
}

// length takes a Content-Length (RFC 9113 8.1.1).
func (h *header) length(value string) error {
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return ErrLength
		}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || h.stream.length >= 0 && h.stream.length != n {
		return ErrLength
	}
	h.stream.length = n
	return nil
}

// expect takes "Expect: 100-continue" out: the first Read of the body answers it.
func (h *header) expect() {
	lines := h.request.Header["Expect"]
	if lines == nil || !httpguts.HeaderValuesContainsToken(lines, "100-continue") {
		return
	}
	delete(h.request.Header, "Expect")
	h.stream.proceed = !h.stream.ended
}

// announced takes the names of trailers out, as net/http does.
func (h *header) announced() {
	lines := h.request.Header["Trailer"]
	if lines == nil {
		return
	}
	delete(h.request.Header, "Trailer")
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.Trim(name, " \t"))
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidTrailerHeader(name) {
				continue
			}
			if h.request.Trailer == nil {
				h.request.Trailer = http.Header{}
			}
			h.request.Trailer[name] = nil
		}
	}
}

// host holds Host and :authority to each other (RFC 9113 8.3.1).
func (h *header) host(line *pseudo) error {
	switch {
	case h.hosts == 0:
		return nil
	case h.hosts > 1, !httpguts.ValidHostHeader(h.host1), strings.Contains(h.host1, "@"):
		return ErrAuthority
	case line.seen&seenAuthority == 0:
		h.request.Host = h.host1
		return nil
	}
	port := ":80"
	if line.scheme == "https" {
		port = ":443"
	}
	if !strings.EqualFold(strings.TrimSuffix(h.host1, port), strings.TrimSuffix(line.authority, port)) {
		return ErrAuthority
	}
	return nil
}

// checkField holds a field that is no pseudo-header field to RFC 9113 8.2.
func checkField(field *hpack.HeaderField) error {
	if !validName(field.Name) {
		if field.IsPseudo() {
			return ErrPseudoField
		}
		return ErrFieldName
	}
	if !validValue(field.Value) {
		return ErrFieldValue
	}
	switch field.Name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return ErrConnField
	case "te":
		if field.Value != "trailers" {
			return ErrConnField
		}
	}
	return nil
}

func validName(name string) bool {
	for i := range len(name) {
		if 'A' <= name[i] && name[i] <= 'Z' {
			return false
		}
	}
	return httpguts.ValidHeaderFieldName(name)
}

func validValue(value string) bool {
	if value == "" {
		return true
	}
	if first, last := value[0], value[len(value)-1]; first == ' ' || first == '\t' || last == ' ' || last == '\t' {
		return false
	}
	return httpguts.ValidHeaderFieldValue(value)
}

// trailers takes the fields behind the content (RFC 9113 8.1). The caller holds
// mu.
func (c *Conn) trailers(s *stream) error {
	b := &c.block
	switch {
	case s.ended:
		return c.faultStream(s, ErrClosedStream)
	case !b.endStream:
		return c.faultStream(s, ErrTrailers)
	case b.selfish:
		return c.faultStream(s, ErrSelfDepend)
	case b.tooLong || len(b.fields) > b.lines:
		return c.faultStream(s, ErrTrailersLarge)
	case s.length >= 0 && s.received != s.length:
		return c.faultStream(s, ErrLength)
	}
	for i := range b.fields {
		if err := checkField(&b.fields[i]); err != nil {
			return c.faultStream(s, err)
		}
	}
	for _, field := range b.fields {
		field.Name = c.canonical(field.Name)
		if httpguts.ValidTrailerHeader(field.Name) { // RFC 9110 6.5.1: others mean nothing there
			s.trailer = append(s.trailer, field)
		}
	}
	s.endRemote()
	return nil
}
