package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

var errOver = errors.New("over")

// discard is a log that nobody reads.
var discard = slog.New(slog.DiscardHandler)

// piped dials endpoints that run a script on one end of a net.Pipe, for tests
// with a clock of their own.
func piped(t testing.TB, script func(p *peer)) dialer {
	t.Helper()
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			script(newPeer(t, far))
		}()
		return near, nil
	}
}

var nowhere = model.Endpoint{URL: "http://endpoint.test", Host: "endpoint.test", Address: "endpoint.test:80"}

func TestRefusedConnection(t *testing.T) {
	each(t, func(t *bed) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		listener.Close()
		body := &closeNoted{Reader: strings.NewReader("x")}
		request := post(nil, 1)
		request.Body = body
		e := wantError(t, fails(t.Context(), t, open(t, model.Endpoint{URL: "http://" + address, Address: address, Host: address}, setup{}), request), pipeline.UpstreamConnect)
		if e.Status != 502 || !e.Unsent {
			t.Errorf("got %+v", e)
		}
		if !body.closed.Load() {
			t.Error("the body was not closed")
		}
		if strings.Contains(e.Detail, address) {
			t.Errorf("the detail names the address: %s", e.Detail)
		}
	})
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		transport := openStandard(t, nowhere, setup{timeouts: model.AttemptTimeouts{Connect: 2 * time.Second}, dial: silent})
		start := time.Now()
		e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamConnect)
		if took := time.Since(start); took != 2*time.Second || e.Status != 502 || !e.Unsent {
			t.Errorf("after %v: %+v", took, e)
		}
	})
}

// slowly is a body that pauses before its end.
type slowly struct {
	io.Reader
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		time.Sleep(s.pause)
	}
	return n, err
}

func TestResponseHeaderTimeoutRunsFromTheEndOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := piped(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
		transport := openStandard(t, nowhere, setup{timeouts: model.AttemptTimeouts{ResponseHeader: 3 * time.Second}, dial: silent})
		start := time.Now()
		e := wantError(t, fails(t.Context(), t, transport, post(&slowly{strings.NewReader("x"), 10 * time.Second}, message.Unknown)), pipeline.UpstreamTimeout)
		if took := time.Since(start); took != 13*time.Second || e.Status != 504 {
			t.Errorf("after %v: %+v", took, e)
		}
	})
}

func TestNoTimeoutAfterTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := piped(t, func(p *peer) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			time.Sleep(time.Hour)
			p.say("k")
		})
		transport := openStandard(t, nowhere, setup{timeouts: model.AttemptTimeouts{Connect: time.Second, ResponseHeader: time.Second}, dial: dial})
		if _, body := ask(t, transport, get("/")); body != "ok" {
			t.Errorf("got %q", body)
		}
	})
}

func TestContextEndsAnAttemptBeforeTheHead(t *testing.T) {
	each(t, func(t *bed) {
		came, gone := make(chan bool, 1), make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			if p.head() == "" {
				return
			}
			came <- true
			_, _ = io.Copy(io.Discard, p)
			close(gone)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-came; cancel(errOver) }()
		transport := open(t, endpoint, setup{})
		if err := fails(ctx, t, transport, get("/")); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		waittest.Receive(t, "the end of the connection", gone)
		if err := fails(ctx, t, transport, get("/")); !errors.Is(err, errOver) {
			t.Errorf("with a context that has ended: %v", err)
		}
	})
}

func TestContextEndsABody(t *testing.T) {
	each(t, func(t *bed) {
		gone := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			if p.head() == "" {
				return
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
			_, _ = io.Copy(io.Discard, p)
			close(gone)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		response, err := trip(ctx, open(t, endpoint, setup{}), get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		go cancel(errOver)
		if _, err := io.ReadAll(response.Body); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		waittest.Receive(t, "the end of the connection", gone)
		response.Close()
	})
}

func TestContextEndsAnAttemptWhoseClientIsSilent(t *testing.T) {
	each(t, func(t *bed) {
		came := make(chan bool, 1)
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				came <- true
				_, _ = io.Copy(io.Discard, p)
			}
		})
		body, client := io.Pipe()
		defer client.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-came; cancel(errOver) }()
		if err := fails(ctx, t, open(t, endpoint, setup{}), post(body, message.Unknown)); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEndpointEndsWhileTheClientIsSilent(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			text string
			word pipeline.Word
		}{
			"closed":    {"", pipeline.UpstreamReset},
			"malformed": {"hello\r\n\r\n", pipeline.UpstreamProtocol},
		} {
			t.Run(name, func(t *bed) {
				endpoint := scripted(t, func(p *peer) {
					if p.head() != "" {
						p.say(test.text)
						if test.text != "" {
							_, _ = io.Copy(io.Discard, p)
						}
					}
				})
				body, client := io.Pipe()
				defer client.Close()
				wantError(t, fails(t.Context(), t, open(t, endpoint, setup{}), post(body, message.Unknown)), test.word)
			})
		}
	})
}

func TestClientFaultsAreNotTheUpstreams(t *testing.T) {
	each(t, func(t *bed) {
		tooLarge := pipeline.NewError(pipeline.BodyTooLarge, nil)
		for name, test := range map[string]struct {
			fault  error
			length int64
			word   pipeline.Word
		}{
			"its own word":      {tooLarge, message.Unknown, pipeline.BodyTooLarge},
			"a client gone":     {pipeline.ErrClientGone, message.Unknown, pipeline.ClientClosed},
			"an early end":      {io.EOF, 100, pipeline.ClientClosed},
			"an unexpected end": {io.ErrUnexpectedEOF, message.Unknown, pipeline.ClientClosed},
			"a malformed body":  {errors.New("malformed chunk"), message.Unknown, pipeline.BadRequest},
		} {
			t.Run(name, func(t *bed) {
				endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
				body, client := io.Pipe()
				go func() {
					_, _ = client.Write([]byte("some"))
					client.CloseWithError(test.fault)
				}()
				wantError(t, fails(t.Context(), t, open(t, endpoint, setup{}), post(body, test.length)), test.word)
			})
		}
	})
}

// Where the end of an attempt breaks the client's body, the end is the cause.
func TestBodyThatFailsBecauseTheAttemptEnded(t *testing.T) {
	each(t, func(t *bed) {
		if t.own != nil {
			t.Skip("its contexts end in tasks")
		}
		endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
		transport := open(t, endpoint, setup{})
		for range 50 {
			ctx, cancel := context.WithCancelCause(t.Context())
			body := readerFunc(func([]byte) (int, error) { cancel(errOver); return 0, io.ErrUnexpectedEOF })
			if err := fails(ctx, t, transport, post(body, message.Unknown)); !errors.Is(err, errOver) {
				t.Fatalf("got %v", err)
			}
		}
	})
}

func TestClientFaultAfterTheHead(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
				_, _ = io.Copy(io.Discard, p)
			}
		})
		body, client := io.Pipe()
		response, err := trip(t.Context(), open(t, endpoint, setup{}), post(body, message.Unknown), nil)
		if err != nil {
			t.Fatal(err)
		}
		client.CloseWithError(pipeline.NewError(pipeline.RequestTimeout, nil))
		_, err = io.ReadAll(response.Body)
		wantError(t, err, pipeline.RequestTimeout)
		response.Close()
	})
}

func TestEarlyResponse(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
				_, _ = io.Copy(io.Discard, p)
			}
		})
		body, client := io.Pipe()
		defer client.Close()
		response, text := ask(t, open(t, endpoint, setup{}), post(body, 1<<20))
		if response.Status != 413 || text != "no" {
			t.Errorf("got %d %q", response.Status, text)
		}
	})
}

// An endpoint that answers and closes while a large body is under way resets
// the connection; its answer must still come through.
func TestEarlyResponseAndClose(t *testing.T) {
	each(t, func(t *bed) {
		answer := strings.Repeat("no", 30<<10)
		for range 20 {
			endpoint := scripted(t, func(p *peer) {
				if p.head() != "" {
					p.say("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: " + itoa(len(answer)) + "\r\n\r\n" + answer)
				}
			})
			response, text := ask(t, open(t, endpoint, setup{}), post(bytes.NewReader(make([]byte, 16<<20)), 16<<20))
			if response.Status != 413 || text != answer {
				t.Fatalf("got %d and %d bytes", response.Status, len(text))
			}
		}
	})
}

func TestReplay(t *testing.T) {
	each(t, func(t *bed) {
		for method, want := range map[string]int{"GET": 3, "POST": 2} {
			t.Run(method, func(t *bed) {
				heads := make(chan string, 10)
				var died atomic.Bool
				endpoint := scripted(t, func(p *peer) {
					for n := 0; ; n++ {
						head := p.head()
						if head == "" {
							return
						}
						heads <- head
						if n == 1 && died.CompareAndSwap(false, true) { // the second request on the first connection sees it die
							return
						}
						p.say(ok)
					}
				})
				transport := open(t, endpoint, setup{})
				ask(t, transport, get("/first"))
				request := get("/second")
				if method == "POST" {
					request = post(strings.NewReader("x"), 1)
					wantError(t, fails(t.Context(), t, transport, request), pipeline.UpstreamReset)
				} else {
					ask(t, transport, request)
				}
				if len(heads) != want {
					t.Errorf("the endpoint saw %d requests, want %d", len(heads), want)
				}
			})
		}
	})
}
