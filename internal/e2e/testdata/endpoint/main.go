// Command endpoint is an endpoint for tests that fails as it is told. Its
// arguments are its name, with which it answers, and where it listens. It prints
// a line when it serves. Each line of its standard input is what it does from
// then on with requests that are no health checks, and is printed when it is so:
//
//	well         it answers at once
//	slow 2s      it answers after a time
//	cut          it resets the connection in the middle of the response's head
//	slam         it resets every connection, those of health checks, too
//
// It ends with its standard input, so that it never outlives its test.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// behaviour is what it does with requests.
type behaviour struct {
	word string
	wait time.Duration
}

func parse(line string) (b behaviour, err error) {
	word, rest, _ := strings.Cut(line, " ")
	b.word = word
	switch word {
	case "well", "cut", "slam":
	case "slow":
		b.wait, err = time.ParseDuration(rest)
	default:
		err = fmt.Errorf("it knows nothing called %q", line)
	}
	return b, err
}

type endpoint struct {
	name string
	now  atomic.Pointer[behaviour]
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("usage: endpoint NAME ADDRESS")
	}
	e := &endpoint{name: os.Args[1]}
	e.now.Store(&behaviour{word: "well"})
	// The test holds the port by a socket that does not listen, so that nobody else
	// has it while the endpoint is away.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var fault error
		err := raw.Control(func(handle uintptr) {
			fault = unix.SetsockoptInt(int(handle), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, fault)
	}}
	listener, err := config.Listen(context.Background(), "tcp", os.Args[2])
	if err != nil {
		return err
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(&slamming{listener, e}) }()
	go func() { failed <- e.obey(os.Stdin) }()
	fmt.Println("serves")
	return <-failed
}

// obey takes what it is told, up to the end.
func (e *endpoint) obey(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		b, err := parse(lines.Text())
		if err != nil {
			return err
		}
		e.now.Store(&b)
		fmt.Println(lines.Text())
	}
	return lines.Err()
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, checked := e.now.Load(), r.URL.Path == "/health"
	switch {
	case b.word == "slam":
		reset(w, "")
		return
	case b.word == "cut" && !checked:
		reset(w, "HTTP/1.1 200 OK\r\nContent-Len")
		return
	case b.word == "slow" && !checked:
		select {
		case <-time.After(b.wait):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("X-Endpoint", e.name)
	_, _ = io.WriteString(w, "answer of "+e.name) // who asked may have left
}

// reset writes the beginning of an answer and resets the connection.
func reset(w http.ResponseWriter, begins string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, begins) // it is broken off in any case
	slam(conn)
}

func slam(conn net.Conn) {
	if socket, ok := conn.(*net.TCPConn); ok {
		_ = socket.SetLinger(0) // it may be closed, which is as good
	}
	_ = conn.Close()
}

// slamming resets connections as they come while the endpoint is to.
type slamming struct {
	net.Listener
	e *endpoint
}

func (l *slamming) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.e.now.Load().word != "slam" {
			return conn, err
		}
		slam(conn)
	}
}
