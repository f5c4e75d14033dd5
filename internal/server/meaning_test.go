package server_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

// means reads a response as long as want is, and compares what they say: the two
// halves differ in the order of fields, the spelling of their names, the version
// in an answer to HTTP/1.0, and the name of a status that has none.
func (c *client) means(want string) {
	c.Helper()
	var got []byte
	for !bytes.HasSuffix(got, []byte("\r\n\r\n")) {
		line, err := c.r.ReadSlice('\n')
		if got = append(got, line...); err != nil {
			c.Fatalf("a head of %q, %v", got, err)
		}
	}
	_, body, _ := strings.Cut(want, "\r\n\r\n")
	head := len(got)
	got = append(got, body...)
	if n, err := io.ReadFull(c.r, got[head:]); err != nil {
		c.Fatalf("after a head of %q came %q, %v", got[:head], got[head:head+n], err)
	}
	if got, want := meaning(string(got)), meaning(want); got != want {
		c.Fatalf("read %q,\nwant %q", got, want)
	}
}

func meaning(response string) string {
	head, body, _ := strings.Cut(response, "\r\n\r\n")
	start, lines, _ := strings.Cut(head, "\r\n")
	if rest, old := strings.CutPrefix(start, "HTTP/1.0 "); old {
		start = "HTTP/1.1 " + rest
		if !strings.Contains(lines, "Connection: keep-alive") {
			lines += "\r\nConnection: close" // goes without saying
		}
	}
	if unnamed := strings.Index(start, " status code "); unnamed >= 0 {
		start = start[:unnamed+1]
	}
	if content, trailer, chunked := strings.Cut(body, "\r\n0\r\n"); chunked {
		body = content + "\r\n0\r\n" + sortedLines(trailer)
	}
	return start + "\r\n" + sortedLines(lines) + "\r\n\r\n" + body
}

// sortedLines are field lines, sorted, with their names in lower case.
func sortedLines(text string) string {
	lines := strings.Split(text, "\r\n")
	for i, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			lines[i] = strings.ToLower(name) + ":" + value
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\r\n")
}
