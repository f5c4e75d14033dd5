package wire

import "sluice/internal/message"

// statusPrefix is what every response begins with: other protocols show at
// their first byte.
const statusPrefix = "HTTP/"

// ResponseHead reads the head of a response (RFC 9112 4) to a request of the
// given method at the front of data, as RequestHead does for requests: n, scan,
// limits, strings and errors are the same.
//
// It sets Protocol, Status and Length of r and appends to r.Fields, all but
// Content-Length and Transfer-Encoding. Length is of the body; in an answer to
// HEAD and in a 304 it is what Content-Length tells, else message.Unknown
// where there is no body. An informational response (1xx) is a response of its
// own: the caller goes on with the next head. The reason phrase is dropped.
//
// A Content-Length in a 1xx or 204 is dropped (RFC 9110 8.6), and so is a
// Transfer-Encoding in a 204; Framing.Close then says that the connection must
// not be used again, because nobody knows what follows. A 1xx may say so, too,
// for the final response behind it.
func ResponseHead(r *message.Response, data []byte, scan *Scan, method string, limits Limits) (n int, f Framing, err error) {
	seen := window(data, 0, limits)
	for i := range min(len(seen), len(statusPrefix)) {
		if seen[i] != statusPrefix[i] {
			return 0, f, ErrStatusLine
		}
	}
	line, first := scan.startLine(seen, 0)
	if line == 0 {
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
	protocol, status, err := statusLine(seen[:line])
	if err != nil {
		return 0, f, err
	}
	r.Protocol, r.Status = protocol, status
	if end == 0 {
		return 0, f, fault
	}
	head := string(data[line:end])
	s := section{fields: room(r.Fields, lines, limits.Headers), place: inResponse}
	if err := s.parse(data, head, line, line, end-len("\r\n"), limits.Headers); err != nil {
		return 0, f, err
	}
	f, r.Length, err = s.responseFraming(protocol, status, method)
	if err != nil {
		return 0, f, err
	}
	r.Fields = s.fields
	*scan = Scan{}
	return end, f, nil
}

// statusLine reads a status line with its line end. The space before an empty
// reason phrase may be missing, as many servers have it.
func statusLine(line []byte) (protocol message.Protocol, status int, err error) {
	end := len(line) - len("\r\n")
	if end < 0 || line[end] != '\r' {
		return "", 0, ErrBareLF
	}
	line = line[:end]
	const code = len("HTTP/1.1 ")
	if len(line) < code || line[code-1] != ' ' {
		return "", 0, ErrStatusLine
	}
	if protocol, err = version(line[:code-1]); err != nil {
		return "", 0, err
	}
	rest := line[code:]
	if len(rest) < 3 || len(rest) > 3 && rest[3] != ' ' {
		return "", 0, ErrStatus
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return "", 0, ErrStatus
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 || status > 599 {
		return "", 0, ErrStatus
	}
	if control(rest, 3) < len(rest) {
		return "", 0, ErrReason
	}
	return protocol, status, nil
}

// responseFraming is what follows the head (RFC 9112 6.3), and what the
// response tells as its length.
func (s *section) responseFraming(protocol message.Protocol, status int, method string) (f Framing, length int64, err error) {
	if status < 200 && s.codings > 0 {
		return f, 0, ErrCodingIn1xx
	}
	f, err = s.framing(protocol)
	if err != nil {
		return f, 0, err
	}
	f.Upgrade = status == 101 || method == "CONNECT" && status/100 == 2
	length = message.Unknown
	switch {
	case f.Upgrade, status < 200, status == 204:
		f.Close = f.Close || !f.Upgrade && f.Body != NoBody
		f.Body, f.Length = NoBody, 0
	case status == 304, method == "HEAD":
		if s.lengths > 0 {
			length = s.length
		}
		f.Body, f.Length = NoBody, 0
	case s.lengths == 0 && s.codings == 0:
		f.Body, f.Length = UntilClose, message.Unknown
		f.Close, f.KeepAlive = true, false
	default:
		length = f.Length
	}
	return f, length, nil
}
