package proxy_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestWeights(t *testing.T) {
	a, seenByA := recording(t, okay)
	b, seenByB := recording(t, okay)
	a.Weight, b.Version = 3, "v2"
	g := forward(t, &model.Route{}, nil, a, b)
	var versions strings.Builder
	for range 40 {
		x := exchange(t.Context(), get("/"))
		g.pass(x)
		versions.WriteString(x.Version + x.Response.Fields.Get(message.XBackendVersion))
	}
	if len(seenByA) != 30 || len(seenByB) != 10 || versions.String() != strings.Repeat("v2v2", 10) {
		t.Errorf("%d and %d, versions %s", len(seenByA), len(seenByB), versions.String())
	}
	if s := g.group.Status(time.Now()); s.Endpoints[0].Requests != 30 || s.Endpoints[1].Requests != 10 {
		t.Errorf("got %+v", s)
	}
}

func TestErrorWords(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	listener.Close()
	saying := func(text string) model.Endpoint {
		return scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say(text)
			}
		})
	}
	weightless := saying(okay)
	weightless.Weight = 0
	for name, test := range map[string]struct {
		endpoint model.Endpoint
		word     pipeline.Word
		status   int
		failures int64
	}{
		"no endpoint with a weight": {weightless, pipeline.NoEndpoint, 503, 0},
		"nobody listens":            {model.Endpoint{URL: "http://" + gone, Address: gone, Host: gone, Weight: 1}, pipeline.UpstreamConnect, 502, 1},
		"closed without an answer":  {saying(""), pipeline.UpstreamReset, 502, 1},
		"not HTTP":                  {saying("hello\r\n\r\n"), pipeline.UpstreamProtocol, 502, 1},
		"an upgrade nobody asked":   {saying("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"), pipeline.UpstreamProtocol, 502, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := forward(t, &model.Route{}, nil, test.endpoint)
			x := exchange(t.Context(), get("/"))
			g.fail(x, test.word, test.status)
			g.quiet(test.failures)
			if x.Upstream != "up" || test.word != pipeline.NoEndpoint && (x.Endpoint != test.endpoint.URL || x.Attempts != 1) {
				t.Errorf("the exchange notes %q %q, %d attempts", x.Upstream, x.Endpoint, x.Attempts)
			}
		})
	}
}

func TestUpgradeToSomethingElse(t *testing.T) {
	for _, offered := range []string{"echo", "websocket, echo", "h2c"} {
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + offered + "\r\n\r\n")
			_, _ = io.Copy(io.Discard, p)
		})
		g := forward(t, &model.Route{}, nil, endpoint)
		g.fail(exchange(t.Context(), get("/", "Connection: Upgrade", "Upgrade: websocket")), pipeline.UpstreamProtocol, 502)
		g.quiet(1)
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
	})
	g := forward(t, &model.Route{}, nil, endpoint)
	x := exchange(t.Context(), get("/"))
	if err := g.Serve(x); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(x.Response.Body)
	wantError(t, err, pipeline.UpstreamReset, 502)
	if string(body) != "ok" {
		t.Errorf("got %q", body)
	}
	x.Response.Close()
	g.quiet(1)
}

func TestBodyThatIsNotReadToItsEnd(t *testing.T) {
	gone := make(chan struct{})
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
		_, _ = io.Copy(io.Discard, p)
		close(gone)
	})
	g := forward(t, &model.Route{}, nil, endpoint)
	x := exchange(t.Context(), get("/"))
	if err := g.Serve(x); err != nil {
		t.Fatal(err)
	}
	if err := x.Response.Close(); err != nil {
		t.Error(err)
	}
	within(t, "the end of the connection", gone)
	g.quiet(0)
}

func TestClientGoneCancelsTheUpstream(t *testing.T) {
	t.Run("before the head", func(t *testing.T) {
		came, gone := make(chan bool, 1), make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			p.head()
			came <- true
			_, _ = io.Copy(io.Discard, p)
			close(gone)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-came; cancel(pipeline.ErrClientGone) }()
		g := forward(t, &model.Route{}, nil, endpoint)
		g.fail(exchange(ctx, get("/")), pipeline.ClientClosed, 499)
		within(t, "the end of the connection", gone)
		g.quiet(0)
	})
	t.Run("in the body", func(t *testing.T) {
		gone := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
			_, _ = io.Copy(io.Discard, p)
			close(gone)
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		g := forward(t, &model.Route{}, nil, endpoint)
		x := exchange(ctx, get("/"))
		if err := g.Serve(x); err != nil {
			t.Fatal(err)
		}
		go cancel(pipeline.ErrClientGone)
		_, err := io.ReadAll(x.Response.Body)
		wantError(t, err, pipeline.ClientClosed, 499)
		within(t, "the end of the connection", gone)
		g.quiet(0)
	})
}

func TestClientFaultsComeOutAsThemselves(t *testing.T) {
	endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
	g := forward(t, &model.Route{}, nil, endpoint)
	for _, word := range []pipeline.Word{pipeline.BodyTooLarge, pipeline.RequestTimeout, pipeline.BadRequest} {
		body, client := io.Pipe()
		go func() {
			_, _ = client.Write([]byte("some"))
			client.CloseWithError(pipeline.NewError(word, nil))
		}()
		g.fail(exchange(t.Context(), post(body, message.Unknown)), word, pipeline.NewError(word, nil).Status)
	}
	body, client := io.Pipe()
	client.CloseWithError(pipeline.ErrClientGone)
	g.fail(exchange(t.Context(), post(body, 10)), pipeline.ClientClosed, 499)
	g.quiet(0)
}

func TestTrailersBothWays(t *testing.T) {
	got := make(chan string, 1)
	endpoint := scripted(t, func(p *peer) {
		got <- p.head() + p.until("\r\n\r\n")
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n")
		_, _ = p.Peek(1)
	})
	request := post(strings.NewReader("x"), message.Unknown)
	request.Fields.Add("Trailer", "X-In")
	request.Trailer = func() message.Fields {
		return message.Fields{{Name: "X-In", Value: "3"}, {Name: "X-Late", Value: "4"}}
	}
	x := exchange(t.Context(), request)
	g := forward(t, &model.Route{}, nil, endpoint)
	if body := g.pass(x); body != "ok" {
		t.Errorf("got %q", body)
	}
	if text := within(t, "a request", got); valueOf(text, "Trailer") != "X-In" || !strings.HasSuffix(text, "0\r\nX-In: 3\r\nX-Late: 4\r\n\r\n") {
		t.Errorf("the endpoint saw %q", text)
	}
	if x.Response.Fields.Get(message.Trailer) != "X-Sum" || fieldText(x.Response.Trailer()) != "X-More: 2\nX-Sum: 1" {
		t.Errorf("the client gets %q and %q", fieldText(x.Response.Fields), fieldText(x.Response.Trailer()))
	}
	g.quiet(0)
}

func TestInformationalResponses(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n" + okay)
	})
	g := forward(t, &model.Route{}, nil, endpoint)
	x := exchange(t.Context(), get("/"))
	var got []string
	x.Informer = informing(func(status int, fields message.Fields) {
		if status != 103 {
			t.Errorf("status %d", status)
		}
		got = append(got, fieldText(fields))
	})
	g.pass(x)
	if text := strings.Join(got, "|"); text != "Link: </a>\nVia: 1.1 "+pseudonym {
		t.Errorf("got %q", text)
	}
	g.pass(exchange(t.Context(), get("/"))) // to a client that takes none
}

func TestExpectReachesTheEndpoint(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		if head := p.head(); valueOf(head, "Expect") != "100-continue" {
			t.Errorf("got %q", head)
		}
		p.say("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")
		if rest, _ := io.ReadAll(p); len(rest) > 0 {
			t.Errorf("the body came all the same: %q", rest)
		}
	})
	request := post(strings.NewReader("hello"), 5)
	request.Fields.Add("Expect", "100-continue")
	x := exchange(t.Context(), request)
	g := forward(t, &model.Route{}, nil, endpoint)
	if body := g.pass(x); body != "no" || x.Response.Status != 417 {
		t.Errorf("got %d %q", x.Response.Status, body)
	}
	g.quiet(0)
}

func TestEarlyResponse(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, p)
	})
	body, client := io.Pipe()
	defer client.Close()
	x := exchange(t.Context(), post(body, 1<<20))
	g := forward(t, &model.Route{}, nil, endpoint)
	if text := g.pass(x); text != "no" || x.Response.Status != 413 {
		t.Errorf("got %d %q", x.Response.Status, text)
	}
	g.quiet(0)
}

func TestStreamsBothWaysAtOnce(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range 3 {
			p.until("\r\n") // the size
			p.say("2\r\n" + p.until("\r\n"))
		}
		p.say("0\r\n\r\n")
		_, _ = io.Copy(io.Discard, p)
	})
	body, client := io.Pipe()
	x := exchange(t.Context(), post(body, message.Unknown))
	g := forward(t, &model.Route{}, nil, endpoint)
	if err := g.Serve(x); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"ab", "cd", "ef"} {
		if _, err := io.WriteString(client, text); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if _, err := io.ReadFull(x.Response.Body, got); err != nil || string(got) != text {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	client.Close()
	if rest := g.drain(x); rest != "" {
		t.Errorf("then came %q", rest)
	}
	g.quiet(0)
}

func tunnelled(ctx context.Context, t *testing.T, g *gateway) *pipeline.Exchange {
	t.Helper()
	x := exchange(ctx, get("/", "Connection: keep-alive, Upgrade", "Upgrade: websocket"))
	if err := g.Serve(x); err != nil {
		t.Fatal(err)
	}
	r := x.Response
	if r.Status != 101 || r.Tunnel == nil || r.Body != nil || r.Fields.Get(message.Upgrade) != "WebSocket" || r.Fields.Get(message.Connection) != "Upgrade" || r.Fields.Get(message.Via) == "" {
		t.Fatalf("got %+v", r)
	}
	return x
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: WebSocket\r\n\r\n"

func TestTunnelHalfCloses(t *testing.T) {
	t.Run("by the client", func(t *testing.T) {
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say(switching)
			got, _ := io.ReadAll(p)
			p.say("got " + string(got))
		})
		g := forward(t, &model.Route{}, nil, endpoint)
		tunnel := tunnelled(t.Context(), t, g).Response.Tunnel
		_, _ = io.WriteString(tunnel, "bytes")
		if err := tunnel.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(tunnel); string(got) != "got bytes" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if active := g.group.Status(time.Now()).Endpoints[0].Active; active != 1 {
			t.Errorf("%d are active with the tunnel open", active)
		}
		tunnel.Close()
		g.quiet(0)
	})
	t.Run("by the endpoint", func(t *testing.T) {
		got := make(chan string, 1)
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say(switching + "bye")
			p.closeWrite()
			rest, _ := io.ReadAll(p)
			got <- string(rest)
		})
		g := forward(t, &model.Route{}, nil, endpoint)
		tunnel := tunnelled(t.Context(), t, g).Response.Tunnel
		if text, err := io.ReadAll(tunnel); string(text) != "bye" || err != nil {
			t.Errorf("got %q, %v", text, err)
		}
		_, _ = io.WriteString(tunnel, "still here")
		tunnel.Close()
		if text := within(t, "the rest", got); text != "still here" {
			t.Errorf("the endpoint got %q", text)
		}
		g.quiet(0)
	})
}

func TestClientGoneEndsATunnel(t *testing.T) {
	gone := make(chan struct{})
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say(switching)
		_, _ = io.Copy(io.Discard, p)
		close(gone)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	g := forward(t, &model.Route{}, nil, endpoint)
	tunnel := tunnelled(ctx, t, g).Response.Tunnel
	go cancel(pipeline.ErrClientGone)
	_, err := io.ReadAll(tunnel)
	wantError(t, err, pipeline.ClientClosed, 499)
	tunnel.Close()
	within(t, "the end of the connection", gone)
	g.quiet(0)
}

func TestTunnelThatIsReset(t *testing.T) {
	endpoint := scripted(t, func(p *peer) {
		p.head()
		p.say(switching)
		if tcp, ok := p.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	})
	g := forward(t, &model.Route{}, nil, endpoint)
	tunnel := tunnelled(t.Context(), t, g).Response.Tunnel
	_, err := io.ReadAll(tunnel)
	wantError(t, err, pipeline.UpstreamReset, 502)
	tunnel.Close()
	g.quiet(1)
}

var errOver = errors.New("over")

func TestGatewayGivesUpAnExchange(t *testing.T) {
	endpoint, _ := recording(t, okay)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOver)
	g := forward(t, &model.Route{}, nil, endpoint)
	if err := g.Serve(exchange(ctx, get("/"))); !errors.Is(err, errOver) {
		t.Errorf("got %v", err)
	}
	g.quiet(0)
}
