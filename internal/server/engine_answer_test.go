package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// letters is a text of a length in which every place can be told from others.
func letters(length int) string {
	var b strings.Builder
	for i := 0; b.Len() < length; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.String()[:length]
}

// partly is a body of which a part is there; the rest comes in pieces. It may
// tell its end along with its last bytes.
type partly struct {
	text  string
	there int
	piece int
	early bool
	end   error // io.EOF, or a failure
}

func (p *partly) Buffered() int { return min(p.there, len(p.text)) }

func (p *partly) Read(b []byte) (n int, err error) {
	most := p.piece
	if p.there > 0 {
		most = min(p.there, p.piece)
	}
	n = copy(b, p.text[:min(most, len(p.text))])
	p.text = p.text[n:]
	p.there = max(0, p.there-n)
	if p.text == "" && (n == 0 || p.early) {
		err = p.end
	}
	return n, err
}

func (p *partly) Close() error { return nil }

// The sizes of the buffers through which bodies pass.
const (
	headBuffer = 16 << 10
	bodyBuffer = 64 << 10
)

// Bodies that are there in part, whole or not at all, around the sizes of the
// buffers. net/http's reader checks the framing, and the next response on the
// connection that nothing is left over.
func TestBodiesOfResponses(t *testing.T) {
	const heads = 600 // no head here is longer
	sizes := []int{0, 1, 15, 16, 255, 256, 511, 512, 513, 4095, 4096, 70_000, 300_000}
	for _, edge := range []int{headBuffer, headBuffer - 512, bodyBuffer} {
		for d := -heads; d <= 40; d += 13 {
			sizes = append(sizes, edge+d)
		}
	}
	script := make(chan *message.Response, 1)
	f := start(t, func(x *pipeline.Exchange) error {
		x.Response = <-script // it is there
		return nil
	})
	c := f.dial()
	text := letters(300_000)
	try := func(length, told, there, piece int, early bool) {
		t.Helper()
		body := &partly{text: text[:length], there: there, piece: piece, early: early, end: io.EOF}
		response := &message.Response{Status: 200, Body: body, Length: int64(told)}
		if told == message.Unknown {
			response.Trailer = func() message.Fields { return message.Fields{{Name: "X-Left", Value: fmt.Sprint(len(body.text))}} }
		}
		script <- response
		c.send(get("/"))
		got, err := http.ReadResponse(c.r, &http.Request{Method: "GET"})
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(got.Body)
		got.Body.Close()
		if err != nil || string(all) != text[:length] || got.Close || got.ContentLength != int64(told) || told < 0 && got.Trailer.Get("X-Left") != "0" {
			t.Fatalf("%d bytes, length %d, %d there, in pieces of %d, early %v: %d bytes, %v, %v", length, told, there, piece, early, len(all), err, got)
		}
		if x := f.next(t); x.Err != nil || x.BytesOut != int64(length) {
			t.Fatalf("%v after %d bytes", x.Err, x.BytesOut)
		}
	}
	for i, length := range sizes {
		for _, told := range []int{length, message.Unknown} {
			try(length, told, length, bodyBuffer, i%2 == 0)
			try(length, told, length/2, bodyBuffer, i%2 == 1)
			try(length, told, 0, 1<<20, i%2 == 0)
			try(length, told, min(length, 600), 5000, i%2 == 1)
		}
	}
	for _, piece := range []int{1, 15, 16, 17, 255, 256, 257, 4095, 4096, 4097, 65_522, 65_523, 65_524, 65_536} { // of which chunks are made
		length := min(10*piece+3, len(text))
		try(length, message.Unknown, 0, piece, false)
		try(length, length, 0, piece, true)
	}
}

// Chunks have no leading zeros, nor are they held back or joined.
func TestChunksAsTheyGoOut(t *testing.T) {
	ofEngine(t, "net/http has its own")
	for piece, size := range map[int]string{1: "1", 15: "f", 16: "10", 255: "ff", 256: "100", 4095: "fff", 4096: "1000", 65_523: "fff3"} {
		text := letters(2 * piece)
		f := start(t, func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: &partly{text: text, piece: piece, early: true, end: io.EOF}, Length: message.Unknown}
			return nil
		})
		c := f.dial().send(get("/"))
		for {
			if line, err := c.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			} else if line == "\r\n" {
				break
			}
		}
		c.read(size + "\r\n" + text[:piece] + "\r\n" + size + "\r\n" + text[piece:] + "\r\n0\r\n\r\n")
	}
}

// What is there goes out in one write with the head, and so does the end.
func TestASmallAnswerIsOneWrite(t *testing.T) {
	ofEngine(t, "net/http flushes the head first")
	for _, length := range []int64{5, message.Unknown} {
		f := start(t, identified(func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: &partly{text: "hello", there: 5, piece: 5, early: true, end: io.EOF}, Length: length}
			return nil
		}))
		c := f.dial().send(get("/"))
		whole := make([]byte, 1000)
		n, err := c.Conn.Read(whole)
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(whole[:n])), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(got.Body); err != nil || string(body) != "hello" {
			t.Errorf("%q of %q, %v", body, whole[:n], err)
		}
		got.Body.Close()
	}
}

// A head that is larger than its buffer.
func TestALargeHeadOfAResponse(t *testing.T) {
	for _, size := range []int{headBuffer - 700, headBuffer - 200, headBuffer, 100_000} {
		value := letters(size)
		f := start(t, func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: message.Text("hello"), Length: message.Unknown, Fields: message.Fields{{Name: "X-Large", Value: value}}}
			return nil
		})
		c := f.dial()
		for range 2 {
			if response, body := c.send(get("/")).answer("GET"); body != "hello" || response.Header.Get("X-Large") != value {
				t.Errorf("%d: %q", size, body)
			}
		}
	}
}

// A body that fails behind what is there: the head is not held back, and the
// client sees a cut. One that fails at once, before anything has gone out, is
// answered by the error.
func TestAReadyBodyThatFails(t *testing.T) {
	broken := pipeline.NewError(pipeline.UpstreamReset, errors.New("reset"))
	tests := []struct {
		name    string
		request string
		body    *partly
		length  int64
		word    pipeline.Word
		status  int
	}{
		{"sized", get("/"), &partly{text: "begun", there: 5, piece: 5, end: broken}, 10, pipeline.UpstreamReset, 200},
		{"sized, with its last bytes", get("/"), &partly{text: "begun", there: 5, piece: 5, early: true, end: broken}, 10, pipeline.UpstreamReset, 502},
		{"in chunks", get("/"), &partly{text: "begun", there: 5, piece: 5, early: true, end: broken}, message.Unknown, pipeline.UpstreamReset, 502},
		{"to HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", &partly{text: "begun", there: 5, piece: 5, end: broken}, message.Unknown, pipeline.UpstreamReset, 200},
		{"shorter", get("/"), &partly{text: "begun", there: 5, piece: 5, early: true, end: io.EOF}, 10, pipeline.Internal, 500},
		{"longer", get("/"), &partly{text: "begun, and more", there: 15, piece: 15, end: io.EOF}, 5, pipeline.Internal, 500},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 200, Body: test.body, Length: test.length}
				return nil
			})
			c := f.dial().send(test.request)
			if !engine {
				test.status = 200 // the adapter sends the head alone
			}
			response := c.head("GET")
			got, err := io.ReadAll(response.Body)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if test.status == 200 {
				all := "begun"
				if !strings.HasPrefix(all, string(got)) /* a reset may take away what was not read */ || err == nil && test.name != "longer" {
					t.Errorf("%q, %v", got, err)
				}
				c.ends()
			}
			if x := f.next(t); x.Err == nil || x.Err.Word != test.word || x.Response.Status != test.status {
				t.Errorf("%v", x.Err)
			}
		})
	}
}

// hollow is a body that says it is there, and gives nothing a number of times
// before every byte.
type hollow struct{ left, times, empty int }

func (h *hollow) Buffered() int { return h.left }

func (h *hollow) Read(p []byte) (int, error) {
	switch {
	case h.empty > 0:
		h.empty--
		return 0, nil
	case h.left == 0:
		return 0, io.EOF
	}
	h.left--
	h.empty = h.times
	p[0] = 'x'
	return 1, nil
}

func (h *hollow) Close() error { return nil }

// Reads that give nothing are no end; a body that gives nothing else does not
// hold up its loop for ever.
func TestABodyThatSaysMoreIsThere(t *testing.T) {
	ofEngine(t, "net/http does not ask what is there")
	for name, test := range map[string]struct {
		length       int64
		empty, times int
		body         string
	}{
		"sized":                  {3, 0, 50, "xxx"},
		"in chunks":              {message.Unknown, 0, 50, "xxx"},
		"nothing at first":       {3, 1, 0, "xxx"},
		"nothing, in chunks":     {message.Unknown, 1, 0, "xxx"},
		"stuck":                  {3, 1 << 40, 0, ""},
		"stuck, in chunks":       {message.Unknown, 1 << 40, 0, ""},
		"stuck behind its begin": {3, 0, 1 << 40, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 200, Body: &hollow{3, test.times, test.empty}, Length: test.length}
				return nil
			})
			c := f.dial().send(get("/"))
			response := c.head("GET")
			body, err := io.ReadAll(response.Body)
			stuck := len(test.body) < 3
			if response.StatusCode != 200 || string(body) != test.body || (err != nil) != stuck {
				t.Errorf("%d, %q, %v", response.StatusCode, body, err)
			}
			if x := f.next(t); stuck != (x.Err != nil) || stuck && !errors.Is(x.Err, io.ErrNoProgress) {
				t.Errorf("%v", x.Err)
			}
		})
	}
}

// Who writes an answer does not hold it back for a body that does not come.
func TestTheHeadDoesNotWait(t *testing.T) {
	body := newStream()
	f := start(t, func(x *pipeline.Exchange) error { return body.respond(x, message.Unknown) })
	c := f.dial().send(get("/"))
	if response := c.head("GET"); response.StatusCode != 200 {
		t.Errorf("%d", response.StatusCode)
	}
	close(body.parts)
	f.next(t)
}

// A response that comes when the time of its exchange is over is not begun: the
// client is told why.
func TestAResponseThatComesTooLate(t *testing.T) {
	ofEngine(t, "net/http's deadlines break the connection")
	f := start(t, func(x *pipeline.Exchange) error {
		x.Until = time.Now().Add(-time.Second)
		x.Response = reply(200, "too late")
		return nil
	})
	c := f.dial()
	for range 2 {
		response, _ := c.send(get("/")).answer("GET")
		if response.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%d", response.StatusCode)
		}
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.UpstreamTimeout {
			t.Errorf("it ended with %v", x.Err)
		}
	}
}
