//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWindow counts the answers that came within it, whenever their requests
// were sent.
func TestWindow(t *testing.T) {
	w := window{
		begin: time.UnixMicro(1000), end: time.UnixMicro(2000),
		before: usage{total: time.Second, user: 1, system: 2},
		after:  usage{total: time.Second + time.Millisecond, user: 3, system: 7},
	}
	o, err := w.outcome(strings.NewReader("900\t200\t100\n900\t200\t101\n1500\t204\t300\n1500\t200\t500\n1500\t200\t501\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := outcome{Requests: 3, Seconds: .001, P50: 300e3, P99: 500e3, P999: 500e3, Max: 500e3, CPU: 1e6, UserTicks: 2, SystemTicks: 5}
	if *o != want {
		t.Errorf("%+v, want %+v", *o, want)
	}
	for notes, want := range map[string]string{
		"":                               "not one request in time",
		"900\t200\t100\n":                "not one request in time",
		"1500\t503\t1\n":                 "status 503",
		"1500\t-1\t1\n":                  "status -1",
		"1500 or so\n":                   `"1500 or so"`,
		strings.Repeat("1500\t20", 9999): "token too long",
	} {
		_, err := w.outcome(strings.NewReader(notes))
		holds(t, notes[:min(len(notes), 20)], err, want)
	}
}

func TestSummary(t *testing.T) {
	const right = "Application protocol: h2c\n" +
		"requests: 12 total, 12 started, 10 done, 10 succeeded, 0 failed, 0 errored, 0 timeout\n" +
		"traffic: 5.14MB (5386440) total, 76.20KB (78024) headers (space savings 95.80%), 1.06KB (1080) data\n"
	l := load{length: 100, streams: 2}
	for _, test := range []struct{ old, new, want string }{
		{"", "", ""},
		{"h2c", "http/1.1", "spoke http/1.1 instead of h2c"},
		{"0 failed", "1 failed", "not every request"},
		{"0 errored", "1 errored", "not every request"},
		{"0 timeout", "1 timeout", "not every request"},
		{"10 succeeded", "9 succeeded", "not every request"},
		{"(1080) data", "(999) data", "another length than 100"},
		{"(1080) data", "(1201) data", "another length than 100"},
		{"(1080) data", "(9999999999999999999) data", "out of range"},
		{"requests:", "", "did not say"},
		{"traffic:", "", "did not say"},
		{"Application", "", "did not say"},
	} {
		holds(t, test.old+" "+test.new, checkSummary(strings.Replace(right, test.old, test.new, 1), l), test.want)
	}
}

// TestWrongStreams shows that no wrong answer passes for a right one over HTTP/2.
func TestWrongStreams(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"right":  {func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("a", 256)) }, ""},
		"status": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, "not every request has the right answer"},
		"length": {func(w http.ResponseWriter) { _, _ = io.WriteString(w, "short") }, "another length than 256"},
		"broken": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "not every request has the right answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.answer(w) }))
			server.Config.Protocols = &http.Protocols{}
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			defer server.Close()
			l := load{connections: 2, streams: 2, path: "/", length: 256}
			o, err := client{h2load: "h2load"}.put(t.Context(), server.Listener.Addr().String(), l, 0, 0, 50*time.Millisecond, []int{os.Getpid()}, nil)
			holds(t, "under load", err, test.want)
			if err == nil && (o.Requests == 0 || o.CPU == 0 || o.P50 == 0) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestNoStreams shows what is said where no load comes about at all.
func TestNoStreams(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	defer server.Close()
	address := server.Listener.Addr().String()
	l := load{connections: 1, streams: 1, path: "/", length: 256, tls: true}
	put := func(program, address string) error {
		_, err := client{h2load: program}.put(t.Context(), address, l, 0, 0, 50*time.Millisecond, nil, nil)
		return err
	}
	holds(t, "no program", put("/nonexistent/h2load", address), "no such file")
	holds(t, "HTTP/1.1 only", put("h2load", address), "h2load -t 1")
	server.Close()
	holds(t, "nobody listens", put("h2load", address), "it ended too early")
}
