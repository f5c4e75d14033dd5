package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// wireMessage is a message as the peer of a gateway read it, by the book and
// nothing but: what a lenient reader would mend is an error.
type wireMessage struct {
	line    string
	fields  []string // "Name: value", but for those of the framing
	framing string   // the one line of Content-Length or Transfer-Encoding; empty: neither is there
	body    string
	trailer []string
	whole   bool // it came to its end
	reset   bool // the connection broke, rather than ended, before
}

var (
	wireName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	wireSize = regexp.MustCompile(`^[0-9A-Fa-f]{1,16}$`)
)

// isWireField tells whether a line is one of a field (RFC 9112 5), which has no
// white space before its colon, and one space or none behind it.
func isWireField(line string) bool {
	name, value, ok := strings.Cut(line, ":")
	return ok && wireName.MatchString(name) && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) &&
		strings.Trim(value, " \t") == strings.TrimPrefix(value, " ")
}

// readWireMessage reads one message. bodyless tells of the start line whether
// the message has no body whatever its fields say; untilClose, whether one that
// tells no length has a body that ends with the connection.
//
// A message that the end of the connection cuts is no error, but is not whole;
// the error is io.EOF where nothing of one came.
func readWireMessage(in *bufio.Reader, bodyless func(line string) bool, untilClose bool) (m wireMessage, err error) {
	m, err = readWireHead(in)
	if err != nil || m.line == "" {
		return m, err
	}
	return m.readBody(in, bodyless(m.line), untilClose)
}

// readWireHead reads the head of a message. Without a start line it was cut.
func readWireHead(in *bufio.Reader) (m wireMessage, err error) {
	if _, err := in.Peek(1); errors.Is(err, io.EOF) {
		return m, io.EOF
	}
	head, err := wireLines(in)
	switch {
	case err != nil:
		return m.cut(err)
	case len(head) == 0:
		return m, errors.New("no start line")
	}
	m.line = head[0]
	for _, field := range head[1:] {
		if !isWireField(field) {
			return m, fmt.Errorf("no field: %q", field)
		}
		name, _, _ := strings.Cut(field, ":")
		switch {
		case !strings.EqualFold(name, "Content-Length") && !strings.EqualFold(name, "Transfer-Encoding"):
			m.fields = append(m.fields, field)
		case m.framing != "":
			return m, fmt.Errorf("the framing is told twice: %q and %q", m.framing, field)
		default:
			m.framing = field
		}
	}
	return m, nil
}

// readBody reads what follows a head.
func (m wireMessage) readBody(in *bufio.Reader, bodyless, untilClose bool) (wireMessage, error) {
	name, value, _ := strings.Cut(m.framing, ": ")
	switch {
	case bodyless, m.framing == "" && !untilClose:
		m.whole = true
		return m, nil
	case m.framing == "":
		body, err := io.ReadAll(in)
		m.body, m.whole, m.reset = string(body), err == nil, err != nil
		return m, nil
	case name == "Content-Length":
		length, err := strconv.ParseUint(value, 10, 31)
		if err != nil || strconv.FormatUint(length, 10) != value {
			return m, fmt.Errorf("no length: %q", value)
		}
		m.body, err = wireBytes(in, int(length))
		if err != nil {
			return m.cut(err)
		}
		m.whole = true
		return m, nil
	case m.framing == "Transfer-Encoding: chunked":
		if err := m.chunks(in); err != nil {
			return m.cut(err)
		}
		m.whole = true
		return m, nil
	}
	return m, fmt.Errorf("no framing: %q", m.framing)
}

// chunks reads a body in the chunked coding, which has no extensions here.
func (m *wireMessage) chunks(in *bufio.Reader) error {
	for {
		line, err := wireLine(in)
		if err != nil {
			return err
		}
		if !wireSize.MatchString(line) {
			return fmt.Errorf("no chunk size: %q", line)
		}
		size, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return err
		}
		if size == 0 {
			break
		}
		payload, err := wireBytes(in, int(size))
		m.body += payload
		if err != nil {
			return err
		}
		if end, err := wireLine(in); err != nil || end != "" {
			return errors.Join(err, fmt.Errorf("%q after a chunk", end))
		}
	}
	trailer, err := wireLines(in)
	if err != nil {
		return err
	}
	for _, field := range trailer {
		if !isWireField(field) {
			return fmt.Errorf("no trailer field: %q", field)
		}
	}
	m.trailer = trailer
	return nil
}

// errWireCut is the end of the connection where there should be none.
var errWireCut = errors.New("cut")

// cut says what an error of reading makes of the message.
func (m wireMessage) cut(err error) (wireMessage, error) {
	if errors.Is(err, errWireCut) {
		m.reset = !errors.Is(err, io.EOF)
		return m, nil
	}
	return m, err
}

// wireLines reads lines to an empty one.
func wireLines(in *bufio.Reader) (lines []string, err error) {
	for {
		line, err := wireLine(in)
		if err != nil || line == "" {
			return lines, err
		}
		lines = append(lines, line)
	}
}

func wireLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%w: %w", errWireCut, err)
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok || strings.Contains(text, "\r") {
		return "", fmt.Errorf("no line end: %q", line)
	}
	return text, nil
}

func wireBytes(in *bufio.Reader, n int) (string, error) {
	payload := make([]byte, n)
	n, err := io.ReadFull(in, payload)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errWireCut, err)
	}
	return string(payload[:n]), err
}

// take removes the lines of a field and returns their values.
func (m *wireMessage) take(name string) (values []string) {
	kept := make([]string, 0, len(m.fields))
	for _, field := range m.fields {
		key, value, _ := strings.Cut(field, ":")
		if strings.EqualFold(key, name) {
			values = append(values, strings.TrimPrefix(value, " "))
		} else {
			kept = append(kept, field)
		}
	}
	m.fields = kept
	return values
}

// text is the message in the form in which tables have it: start line, fields
// in order, what frames it, an empty line, the decoded body; where there are
// trailers, they follow after another empty line.
func (m *wireMessage) text() string {
	lines := append([]string{m.line}, m.fields...)
	if m.framing != "" {
		lines = append(lines, m.framing)
	}
	text := strings.Join(lines, "\n")
	if m.body != "" || len(m.trailer) > 0 {
		text += "\n\n" + m.body
	}
	if len(m.trailer) > 0 {
		text += "\n\n" + strings.Join(m.trailer, "\n")
	}
	return text
}
