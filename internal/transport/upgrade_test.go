package transport

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// expecting is a request that waits for a go-ahead; asked is closed when its
// body is read.
func expecting(text string) (request *message.Request, asked chan struct{}) {
	asked = make(chan struct{})
	request = post(io.MultiReader(readerFunc(func([]byte) (int, error) { close(asked); return 0, io.EOF }), strings.NewReader(text)), int64(len(text)))
	request.Fields.Add("expect", "100-continue")
	return request, asked
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestExpectWaitsForTheEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, asked := expecting("hello")
		transport := openStandard(t, nowhere, setup{dial: piped(t, func(p *peer) {
			if head := p.head(); !strings.Contains(head, "Expect: 100-continue\r\n") {
				t.Errorf("got the head %q", head)
			}
			time.Sleep(500 * time.Millisecond)
			if isClosed(asked) {
				t.Error("the body was read before the go-ahead")
			}
			p.say("HTTP/1.1 100 Continue\r\n\r\n")
			p.until("hello")
			if ok := isClosed(asked); !ok {
				t.Error("the body came from nowhere")
			}
			p.say(ok)
		})})
		start := time.Now()
		if _, body := ask(t, transport, request); body != "ok" || time.Since(start) != 500*time.Millisecond {
			t.Errorf("got %q after %v", body, time.Since(start))
		}
	})
}

func TestExpectIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, _ := expecting("hello")
		transport := openStandard(t, nowhere, setup{dial: piped(t, func(p *peer) {
			p.head()
			p.until("hello")
			p.say(ok)
		})})
		start := time.Now()
		if _, body := ask(t, transport, request); body != "ok" || time.Since(start) != continueTimeout {
			t.Errorf("got %q after %v", body, time.Since(start))
		}
	})
}

func TestRefusedExpectationReadsNoBody(t *testing.T) {
	each(t, func(t *bed) {
		for name, head := range map[string]string{"kept": "HTTP/1.1 417 No\r\n", "closed": "HTTP/1.1 417 No\r\nConnection: close\r\n"} {
			t.Run(name, func(t *bed) {
				request, asked := expecting("hello")
				endpoint := scripted(t, func(p *peer) {
					if p.head() != "" {
						p.say(head + "Content-Length: 2\r\n\r\nno")
						if rest, _ := io.ReadAll(p); len(rest) > 0 {
							t.Errorf("after the refusal came %q", rest)
						}
					}
				})
				transport := open(t, endpoint, setup{})
				response, body := ask(t, transport, request)
				if response.Status != 417 || body != "no" {
					t.Errorf("got %d %q", response.Status, body)
				}
				transport.Release()
				if isClosed(asked) {
					t.Error("the body was read")
				}
			})
		}
	})
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

func upgrade(ctx context.Context, t testing.TB, transport pipeline.Transport) message.Tunnel {
	t.Helper()
	request := get("/")
	request.Fields.Add("connection", "Upgrade")
	request.Fields.Add("Upgrade", "echo")
	response, err := trip(ctx, transport, request, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.Status != 101 || response.Tunnel == nil || response.Body != nil || response.Fields.Get(message.Upgrade) != "echo" {
		t.Fatalf("got %+v", response)
	}
	return response.Tunnel
}

func TestTunnelHalfCloses(t *testing.T) {
	each(t, func(t *bed) {
		t.Run("by the client", func(t *bed) {
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.say(switching + "hello ")
				got, _ := io.ReadAll(p)
				p.say("got " + string(got))
			})
			tunnel := upgrade(t.Context(), t, open(t, endpoint, setup{}))
			defer tunnel.Close()
			if _, err := io.WriteString(tunnel, "bytes"); err != nil {
				t.Fatal(err)
			}
			if err := tunnel.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(tunnel); string(got) != "hello got bytes" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
		t.Run("by the endpoint", func(t *bed) {
			got := make(chan string, 1)
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.say(switching + "bye")
				_ = p.Conn.(interface{ CloseWrite() error }).CloseWrite()
				rest, _ := io.ReadAll(p)
				got <- string(rest)
			})
			tunnel := upgrade(t.Context(), t, open(t, endpoint, setup{}))
			if text, err := io.ReadAll(tunnel); string(text) != "bye" || err != nil {
				t.Errorf("got %q, %v", text, err)
			}
			if _, err := io.WriteString(tunnel, "still here"); err != nil {
				t.Fatal(err)
			}
			if err := tunnel.Close(); err != nil {
				t.Fatal(err)
			}
			if text := waittest.Receive(t, "the rest", got); text != "still here" {
				t.Errorf("the endpoint got %q", text)
			}
		})
	})
}

func TestContextEndsATunnel(t *testing.T) {
	each(t, func(t *bed) {
		gone := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say(switching)
			_, _ = io.Copy(io.Discard, p)
			close(gone)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		tunnel := upgrade(ctx, t, open(t, endpoint, setup{}))
		defer tunnel.Close()
		go cancel(errOver)
		if _, err := io.ReadAll(tunnel); !errors.Is(err, errOver) {
			t.Errorf("reading: %v", err)
		}
		if _, err := io.WriteString(tunnel, "x"); !errors.Is(err, errOver) {
			t.Errorf("writing: %v", err)
		}
		if err := tunnel.CloseWrite(); !errors.Is(err, errOver) {
			t.Errorf("CloseWrite: %v", err)
		}
		waittest.Receive(t, "the end of the connection", gone)
	})
}

func TestTunnelTellsAReset(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say(switching)
			_ = p.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
		})
		tunnel := upgrade(t.Context(), t, open(t, endpoint, setup{}))
		defer tunnel.Close()
		_, err := io.ReadAll(tunnel)
		wantError(t, err, pipeline.UpstreamReset)
	})
}
