package h2_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// TestResponses: how responses are framed.
func TestResponses(t *testing.T) {
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	cases := []struct {
		name    string
		method  string
		handler func(w http.ResponseWriter, r *http.Request)
		status  string
		fields  string // but date, sorted
		body    string
		more    string // trailers, then interim statuses
		frames  string // "" : any
		reset   http2.ErrCode
	}{
		{name: "nothing", handler: func(http.ResponseWriter, *http.Request) {}, status: "200", fields: "content-length: 0", frames: "HEADERS"},
		{name: "a small body", handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "abc") },
			status: "200", fields: "content-length: 3, content-type: text/plain; charset=utf-8", body: "abc", frames: "HEADERS DATA"},
		{name: "flushed, then nothing", handler: func(w http.ResponseWriter, _ *http.Request) { flush(w) }, status: "200"},
		{name: "a declared length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Header().Set("Content-Length", "3")
			w.WriteHeader(201)
			w.Header().Set("X-Late", "1")
			_, _ = w.Write([]byte("abc"))
			flush(w)
		}, status: "201", fields: "content-length: 3", body: "abc", frames: "HEADERS DATA"},
		{name: "a declared length in pieces", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Header().Set("Content-Length", "4")
			_, _ = w.Write([]byte("ab"))
			_, _ = io.WriteString(w, "cd")
			if _, err := w.Write([]byte("e")); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("writing past the length: %v", err)
			}
		}, status: "200", fields: "content-length: 4", body: "abcd", frames: "HEADERS DATA"},
		{name: "less than declared", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4")
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "abc")
			flush(w)
		}, status: "200", fields: "content-length: 4", body: "abc", reset: http2.ErrCodeInternal},
		{name: "a declared length of nothing", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(404)
			flush(w)
		}, status: "404", fields: "content-length: 0", frames: "HEADERS"},
		{name: "HEAD", method: "HEAD", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if n, err := w.Write([]byte("abc")); n != 3 || err != nil {
				t.Error(n, err)
			}
		}, status: "200", fields: "content-length: 3", frames: "HEADERS"},
		{name: "HEAD of a length", method: "HEAD", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "7")
			w.WriteHeader(200)
			flush(w)
		}, status: "200", fields: "content-length: 7", frames: "HEADERS"},
		{name: "204", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "0")
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Error(err)
			}
		}, status: "204", frames: "HEADERS"},
		{name: "304", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["content-length"] = []string{"9"}
			w.Header().Set("Etag", `"a"`)
			w.WriteHeader(304)
		}, status: "304", fields: `content-length: 9, etag: "a"`, frames: "HEADERS"},
		{name: "fields", handler: func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["x-Mixed"] = []string{"1", "2"}
			h["Set-Cookie"] = []string{"a=1", "b=2"}
			h["Connection"] = []string{"x-mixed"}
			h["Keep-Alive"], h["Upgrade"], h["Te"], h["Proxy-Connection"] = []string{"1"}, []string{"h2c"}, []string{"trailers"}, []string{"close"}
			h["Transfer-Encoding"] = []string{"chunked"}
			h["Bad Name"], h["X-Bad"] = []string{"1"}, []string{"a\nb", " trimmed "}
			h["Content-Encoding"] = []string{"gzip"}
			_, _ = w.Write([]byte("abc"))
		}, status: "200", fields: "content-encoding: gzip, content-length: 3, set-cookie: a=1|b=2, x-bad: trimmed, x-mixed: 1|2", body: "abc"},
		{name: "its own date", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Date"] = nil
			w.WriteHeader(204)
		}, status: "204"},
		{name: "fields that no table keeps", handler: func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"Age", "Content-Range", "Etag", "Last-Modified", "Location", "Set-Cookie", "X-Request-Id"} {
				w.Header().Set(name, strings.Repeat(name, 40))
			}
			w.Header().Set("Content-Length", "007")
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("content"))
		}, status: "200", body: "content", fields: func() string {
			var lines []string
			for _, name := range []string{"Age", "Content-Length", "Content-Range", "Etag", "Last-Modified", "Location", "Set-Cookie", "X-Request-Id"} {
				value := strings.Repeat(name, 40)
				if name == "Content-Length" {
					value = "7"
				}
				lines = append(lines, strings.ToLower(name)+": "+value)
			}
			return strings.Join(lines, ", ")
		}()},
		{name: "trailers announced", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.Header().Set("Trailer", "X-A, x-b, Content-Length")
			w.Header().Set("X-A", "early")
			_, _ = w.Write([]byte("abc"))
			w.Header().Set("X-A", "1")
			w.Header().Set("X-C", "unannounced")
		}, status: "200", fields: "trailer: X-A, x-b, Content-Length", body: "abc", more: "x-a: 1", frames: "HEADERS DATA HEADERS"},
		{name: "trailers with the prefix", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("abc"))
			flush(w)
			w.Header()[http.TrailerPrefix+"Grpc-Status"] = []string{"0"}
			w.Header()[http.TrailerPrefix+"Content-Length"] = []string{"0"}
		}, status: "200", body: "abc", more: "grpc-status: 0", frames: "HEADERS DATA HEADERS"},
		{name: "trailers alone", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-A")
			w.WriteHeader(200)
			w.Header().Set("X-A", "1")
		}, status: "200", fields: "trailer: X-A", more: "x-a: 1", frames: "HEADERS HEADERS"},
		{name: "trailers announced and none", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-A")
			w.WriteHeader(200)
		}, status: "200", fields: "trailer: X-A"},
		{name: "informational", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.Header().Set("Link", "</b>")
			w.WriteHeader(103)
			w.Header().Del("Link")
			w.WriteHeader(200)
			w.WriteHeader(500)
			w.WriteHeader(103)
		}, status: "200", fields: "content-length: 0", more: "103,103"},
		{name: "aborted", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, reset: http2.ErrCodeInternal},
		{name: "panicked", handler: func(http.ResponseWriter, *http.Request) { panic("BUG: as this test has it") }, reset: http2.ErrCodeInternal},
		{name: "aborted in the middle", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("abc"))
			flush(w)
			panic(http.ErrAbortHandler)
		}, status: "200", body: "abc", reset: http2.ErrCodeInternal},
		{name: "no such status", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }, reset: http2.ErrCodeInternal},
		{name: "101", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(101) }, reset: http2.ErrCodeInternal},
		{name: "a large head", handler: func(w http.ResponseWriter, _ *http.Request) {
			for i := range 5 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("~", 10<<10))
			}
			w.WriteHeader(204)
		}, status: "204", frames: "HEADERS CONTINUATION CONTINUATION CONTINUATION"},
		{name: "a large body", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte(strings.Repeat("x", 40<<10)))
		}, status: "200", body: strings.Repeat("x", 40<<10), frames: "HEADERS DATA DATA DATA"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, handler(tc.handler), nil)
			c := s.dial(t)
			method := tc.method
			if method == "" {
				method = "GET"
			}
			c.open(1, true, with(get(), ":method: "+method))
			a := c.answer(1)
			if tc.reset != 0 && (a.reset == nil || *a.reset != tc.reset) || tc.reset == 0 && !a.ended {
				t.Fatalf("it ended with %v, want %v", a, tc.reset)
			}
			var fields []string
			if strings.Contains(tc.name, "date") == (a.fields["date"] != "") && tc.status != "" {
				t.Errorf("Date is %q", a.fields["date"])
			}
			delete(a.fields, "date")
			for name, value := range a.fields {
				fields = append(fields, name+": "+value)
			}
			slices.Sort(fields)
			more := strings.Join(a.interim, ",")
			for name, value := range a.trailers {
				more = name + ": " + value + more
			}
			if got := strings.Join(fields, ", "); a.status != tc.status || got != tc.fields && tc.name != "a large head" || a.body != tc.body || more != tc.more {
				t.Errorf("%s [%s] %d bytes [%s], want %s [%s] %d bytes [%s]", a.status, got, len(a.body), more, tc.status, tc.fields, len(tc.body), tc.more)
			}
			var frames []string
			for _, frame := range a.frames {
				name, _, _ := strings.Cut(frame, " ")
				frames = append(frames, name)
			}
			if got := strings.Join(frames, " "); tc.frames != "" && got != tc.frames {
				// The writer may be faster than the handler's return.
				if late := tc.name == "a large body" && got == tc.frames+" DATA"; !late {
					t.Errorf("frames %s, want %s", got, tc.frames)
				}
			}
		})
	}
}

// TestRestOfBody: a response that is whole ends the request whose content nobody
// wants.
func TestRestOfBody(t *testing.T) {
	s := serve(t, handler(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }), nil)
	c := s.dial(t)
	c.open(1, false, post())
	if a := c.answer(1); a.status != "403" || !a.ended {
		t.Fatal(a)
	}
	if a := c.answer(1); a.reset == nil || *a.reset != http2.ErrCodeNo {
		t.Error(a)
	}
}

// TestContinue: the first read of a body asks for it, unless something was said.
func TestContinue(t *testing.T) {
	seen := make(chan string, 3)
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("Expect")
		if r.URL.Path == "/early" {
			w.WriteHeader(100)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}), nil)
	c := s.dial(t)
	for i, path := range []string{"/", "/early"} {
		id := uint32(2*i + 1)
		c.open(id, false, with(post("expect: 100-continue"), ":path: "+path))
		if got := <-seen; got != "" {
			t.Errorf("Expect is %q", got)
		}
		c.must(c.WriteData(id, true, []byte("abc")))
		if a := c.answer(id); a.body != "abc" || strings.Join(a.interim, ",") != "100" {
			// The content may come before it is asked for.
			if len(a.interim) != 0 || path == "/early" {
				t.Errorf("%s: %v, informational %v", path, a, a.interim)
			}
		}
	}
}

// TestDeadlines: a handler bounds its waiting, and goes on after that.
func TestDeadlines(t *testing.T) {
	s := serve(t, handler(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		past := time.Unix(1, 0)
		_ = rc.SetReadDeadline(past)
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading past the deadline: %v", err)
		}
		_ = rc.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("reading until the deadline: %v", err)
		}
		_ = rc.SetReadDeadline(time.Time{})
		go func() { _ = rc.SetReadDeadline(past) }()
		if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline while reading: %v", err)
		}
		_ = rc.SetReadDeadline(time.Time{})
		w.WriteHeader(200)
		_ = rc.Flush() // asks for the body
		if body, err := io.ReadAll(r.Body); string(body) != "abc" || err != nil {
			t.Errorf("then reading gives %q, %v", body, err)
		}
		if _, err := r.Body.Read(nil); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := w.Write(make([]byte, 100<<10)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("writing past the deadline: %v", err)
		}
		if err := rc.Flush(); err == nil {
			t.Error("a broken response can be flushed")
		}
	}), nil)
	c := s.dial(t)
	c.open(1, false, post())
	for status := ""; status == ""; {
		frame, err := c.ReadFrame()
		c.must(err)
		if frame.Header().Type == http2.FrameHeaders {
			status = "200"
		}
	}
	c.must(c.WriteData(1, true, []byte("abc")))
	if a := c.answer(1); a.reset == nil || *a.reset != http2.ErrCodeInternal {
		t.Error(a)
	}
}

// TestClosedBody: what a handler does not want is dropped, and its place given
// back.
func TestClosedBody(t *testing.T) {
	options := handler(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_ = r.Body.Close()
			_ = r.Body.Close()
			if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Error(err)
			}
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		echo(w, r)
	})
	options.StreamWindow, options.ConnWindow = 1, 1 // the least: 64 KiB
	s := serve(t, options, nil)
	c := s.dial(t)
	credit := 64 << 10
	for id := uint32(1); id < 20; id += 2 { // more than the connection's window
		c.open(id, false, post())
		for range 2 {
			for credit < 16<<10 {
				frame := c.next()
				if update, ok := frame.(*http2.WindowUpdateFrame); ok && update.StreamID == 0 {
					credit += int(update.Increment)
				}
			}
			credit -= 16 << 10
			c.must(c.WriteData(id, false, make([]byte, 16<<10)))
		}
	}
	c.open(21, true, get())
	if a := c.answer(21); a.status != "200" {
		t.Error(a)
	}
}
